#include "tests/support/samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace pith::testing {
namespace {

namespace fs = std::filesystem;

void check_valid(const fs::path& path, Opener open, const nlohmann::json& expected) {
  SCOPED_TRACE(path.string());
  const auto opened = open(path);
  ASSERT_TRUE(opened) << opened.error().message();
  const Checkpoint& checkpoint = **opened;
  const Status all = read_everything(path, open);
  EXPECT_TRUE(all.ok()) << all.message();
  for (const auto& [name, tensor] : expected.items()) {
    SCOPED_TRACE(name);
    const auto index = checkpoint.find(name);
    ASSERT_TRUE(index.has_value());
    const auto extents = tensor["shape"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(checkpoint.tensors()[*index].shape, Shape::make(extents).value());
    const std::vector<float> values = read_values(checkpoint, *index);
    EXPECT_EQ(values.size(), tensor["count"].get<std::size_t>());
    const auto first = tensor["first"].get<std::vector<float>>();
    ASSERT_LE(first.size(), values.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), values.begin()));
    EXPECT_EQ(crc_of(values), tensor["f32_crc32"].get<std::string>());
  }
}

void check_refused(const fs::path& path, Opener open) {
  SCOPED_TRACE(path.string());
  const Status status = read_everything(path, open);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.code() == StatusCode::kCorrupt ||
              status.code() == StatusCode::kUnsupported)
      << to_string(status.code());
  EXPECT_TRUE(status.message().starts_with(path.string())) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_LE(status.message().size(), 400u) << status.message();
}

}  // namespace

fs::path samples_folder() {
  const char* shared = std::getenv("PITH_SHARED");
  const fs::path source = fs::path(__FILE__).parent_path().parent_path().parent_path();
  const fs::path folder =
      (shared != nullptr ? fs::path(shared) : source.parent_path() / "shared") /
      "samples";
  return fs::exists(folder / "expected.json") ? folder : fs::path();
}

Status read_everything(const fs::path& path, Opener open) {
  PITH_TRY(const std::unique_ptr<Checkpoint> checkpoint, open(path));
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const TensorInfo& tensor = checkpoint->tensors()[i];
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
    const Status raw = checkpoint->read_bytes(i, 0, bytes);
    if (!raw.ok() && raw.code() != StatusCode::kUnsupported) return raw;
    if (!tensor.encoding.decodable) continue;
    const std::int64_t rows = tensor.shape.rows();
    const std::int64_t cols = tensor.shape.cols();
    for (const std::int64_t piece : {std::int64_t{1}, std::int64_t{3}, rows}) {
      for (std::int64_t row = 0; row < rows; row += piece) {
        const std::int64_t n = std::min(piece, rows - row);
        std::vector<float> values(static_cast<std::size_t>(n * cols));
        PITH_OK(checkpoint->read_rows(i, row, n, values));
      }
    }
  }
  return {};
}

std::vector<float> read_values(const Checkpoint& checkpoint, std::size_t tensor) {
  const Shape& shape = checkpoint.tensors()[tensor].shape;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  const Status status = checkpoint.read_rows(tensor, 0, shape.rows(), values);
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

std::string crc_of(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const Bytef*>(values.data());
  return fmt::format("{:08x}", crc32_z(0, bytes, values.size() * sizeof(float)));
}

void check_samples(const std::string& folder, Opener open) {
  const fs::path samples = samples_folder();
  if (samples.empty()) GTEST_SKIP() << "no sample files: set PITH_SHARED";
  std::ifstream in(samples / "expected.json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(samples / folder)) {
    const std::string name = entry.path().filename();
    const std::string key = folder + "/" + name + (entry.is_directory() ? "/" : "");
    ++files;
    if (name.starts_with("ok_")) {
      check_valid(entry.path(), open, expected.value(key, nlohmann::json::object()));
    } else {
      check_refused(entry.path(), open);
    }
  }
  EXPECT_GT(files, 0);
}

}  // namespace pith::testing

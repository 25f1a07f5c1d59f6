// A stage of one's own in the pipeline: weights are drawn back to three standard deviations
// before they are quantized, so that a few outliers do not cost all others their precision.
//
//   custom_stage            makes a small checkpoint, compresses it both ways, compares
//
// The stage says its name, checks its options and changes the values of a tensor in place.
// Recipes written in YAML know the built-in stages only; rules made in code take any.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

#include "pith/io/writer.h"
#include "pith/pipeline/compress.h"

namespace {

class Winsorize : public pith::Stage {
 public:
  explicit Winsorize(double deviations) : deviations_(deviations) {}

  std::string_view name() const override { return "winsorize"; }

  pith::Status validate() const override {
    if (deviations_ > 0) return {};
    return pith::Status::invalid_argument("winsorize: deviations must be above 0");
  }

  pith::Status apply(const pith::TensorHeader& /*tensor*/,
                     std::span<float> values) const override {
    double sum = 0;
    for (const float value : values) sum += double{value} * value;
    const auto limit = static_cast<float>(
        deviations_ * std::sqrt(sum / static_cast<double>(values.size())));
    for (float& value : values) value = std::clamp(value, -limit, limit);
    return {};
  }

 private:
  double deviations_;
};

// Normal weights and a few far out.
pith::Status write_checkpoint(const std::filesystem::path& path) {
  PITH_TRY(const pith::Shape shape, pith::Shape::make({256, 256}));
  pith::CheckpointLayout layout;
  layout.tensors.push_back(
      pith::TensorSpec::plain("fc.weight", pith::DType::kF32, shape));
  PITH_TRY(const auto writer, pith::CheckpointWriter::create(path, layout));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(256 * 256);
  for (float& value : values) value = normal(random);
  for (std::size_t i = 0; i < values.size(); i += 9973) values[i] = 1;
  PITH_OK(writer->write(0, 0, std::as_bytes(std::span(values))));
  return writer->commit();
}

pith::Status run(const std::filesystem::path& folder) {
  const std::filesystem::path input = folder / "model.safetensors";
  PITH_OK(write_checkpoint(input));
  for (const bool custom : {false, true}) {
    pith::Rule rule;
    PITH_TRY(pith::NamePattern pattern, pith::NamePattern::make("*"));
    rule.match.push_back(std::move(pattern));
    if (custom) rule.stages.push_back(std::make_shared<Winsorize>(3));
    rule.stages.push_back(pith::quantize_stage(pith::Scheme::int4_tensor()));
    pith::CompressOptions options;
    options.recipe.rules.push_back(std::move(rule));
    options.recipe.text = custom ? "winsorize 3, int4" : "int4";
    options.overwrite = true;
    PITH_TRY(const pith::Report report,
             pith::compress(input, folder / "small.safetensors", options));
    std::printf("%-18s %lld bytes, rmse %.5f\n", options.recipe.text.c_str(),
                static_cast<long long>(report.output.bytes),
                report.tensors.front().error->rmse());
  }
  return {};
}

}  // namespace

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "pith-custom-stage";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const pith::Status status = run(folder);
  std::filesystem::remove_all(folder, ignored);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

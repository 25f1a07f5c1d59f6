#include "src/io/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "pith/io/writer.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::TempFolder;

std::uintptr_t address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

TEST(UseBuffer, LiesInItsLineAsThePlaceInTheFileDoes) {
  Buffer buffer;
  for (std::int64_t place = 0; place < 300; place += 7) {
    const std::span<std::byte> bytes = use_buffer(buffer, 1000, place);
    EXPECT_EQ(bytes.size(), 1000u);
    EXPECT_EQ(address_of(bytes.data()) % 64, static_cast<std::uintptr_t>(place) % 64);
    EXPECT_GE(bytes.data(), buffer.data());
    EXPECT_LE(bytes.data() + bytes.size(), buffer.data() + buffer.size());
  }
}

TEST(UseBuffer, MemoryIsUsedAgain) {
  Buffer buffer;
  use_buffer(buffer, 1000);
  const std::byte* memory = buffer.data();
  for (std::int64_t place : {0, 63, 64, 4095}) {
    use_buffer(buffer, 1000, place);
    use_buffer(buffer, 10, place);
    EXPECT_EQ(buffer.data(), memory);
  }
}

// Wherever a header makes the tensors begin.
TEST(PieceReader, MemoryIsNotJustBehindThePlaceInThePage) {
  const TempFolder folder;
  std::vector<float> values(3000);
  std::iota(values.begin(), values.end(), 1.0F);
  std::vector<std::uint16_t> halves(3000);
  std::iota(halves.begin(), halves.end(), std::uint16_t{1});
  for (std::size_t length = 0; length < 4096; length += 8) {
    CheckpointLayout layout;
    layout.tensors.push_back(TensorSpec::plain("a", DType::kF32, *Shape::make({3000})));
    layout.tensors.push_back(TensorSpec::plain("b", DType::kBF16, *Shape::make({3000})));
    layout.metadata = {{"padding", std::string(length, '.')}};
    const auto path = folder / "a.safetensors";
    auto writer =
        CheckpointWriter::create(path, layout, {.overwrite = true, .sync = false});
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->write(0, 0, std::as_bytes(std::span(values))).ok());
    ASSERT_TRUE((*writer)->write(1, 0, std::as_bytes(std::span(halves))).ok());
    ASSERT_TRUE((*writer)->commit().ok());
    const auto model = Checkpoint::open(path);
    ASSERT_TRUE(model);
    PieceReader reader(**model);
    const auto expect_apart = [&](std::size_t tensor, std::int64_t begin,
                                  const void* memory) {
      const std::uint64_t place =
          (*model)->tensors()[tensor].offset + static_cast<std::uint64_t>(begin);
      const std::uint64_t behind = (address_of(memory) - place) % 4096;
      EXPECT_TRUE(behind == 0 || behind >= 64) << behind;
    };
    for (std::int64_t begin : {0, 1, 2000}) {
      const auto first = reader.values({0, begin, 1000, 0});
      ASSERT_TRUE(first);
      expect_apart(0, begin * 4, first->data());
      EXPECT_EQ(std::memcmp(first->data(), values.data() + begin, 4000), 0);
      const auto second = reader.bytes({1, begin, 1000, 0});
      ASSERT_TRUE(second);
      expect_apart(1, begin * 2, second->data());
      EXPECT_EQ(std::memcmp(second->data(), halves.data() + begin, 2000), 0);
    }
  }
}

// A piece never lies where one lay that is still in the cache, as far as there is room.
TEST(PieceReader, GoesRoundInItsRoom) {
  const TempFolder folder;
  std::vector<float> values(40000);
  std::iota(values.begin(), values.end(), 1.0F);
  CheckpointLayout layout;
  layout.tensors.push_back(TensorSpec::plain("a", DType::kF32, *Shape::make({40000})));
  const auto path = folder / "a.safetensors";
  auto writer = CheckpointWriter::create(path, layout, {.sync = false});
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->write(0, 0, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE((*writer)->commit().ok());
  const auto model = Checkpoint::open(path);
  ASSERT_TRUE(model);
  for (const std::int64_t room : {0, 1000, 64 << 10}) {
    PieceReader reader(**model, room);
    std::set<const void*> places;
    for (std::int64_t begin = 0; begin < 40000; begin += 1000) {
      const auto piece = reader.values({0, begin, 1000, 0});
      ASSERT_TRUE(piece);
      ASSERT_EQ(std::memcmp(piece->data(), values.data() + begin, 4000), 0);
      places.insert(piece->data());
    }
    // A piece has 63 lines, and one to leave out; which is done again when it begins anew.
    EXPECT_GE(places.size(), room < 8000 ? 1u : 16u) << room;
    EXPECT_LE(places.size(), room < 8000 ? 2u : 32u) << room;
    // One that is larger than the room is read all the same.
    const auto all = reader.values({0, 0, 40000, 0});
    ASSERT_TRUE(all);
    EXPECT_EQ(std::memcmp(all->data(), values.data(), 160000), 0);
  }
}

TEST(PieceReader, RoomIsAShareOfTheMemory) {
  EXPECT_EQ(PieceReader::room_within(std::int64_t{1} << 40), PieceReader::kRoom);
  EXPECT_LE(PieceReader::room_within(1 << 20), 64 << 10);
}

}  // namespace
}  // namespace pith

#include "src/io/strided.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace pith {
namespace {

// Counts what is read.
class CountingSource : public ByteSource {
 public:
  explicit CountingSource(std::span<const std::byte> content) : memory_(content) {}
  [[nodiscard]] std::uint64_t size() const override { return memory_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    bytes += out.size();
    forward = forward && offset >= last;
    last = offset;
    largest = std::max(largest, out.size());
    return memory_.read(offset, out);
  }
  mutable std::size_t reads = 0;
  mutable std::size_t bytes = 0;
  mutable std::size_t largest = 0;
  mutable std::uint64_t last = 0;
  mutable bool forward = true;

 private:
  MemorySource memory_;
};

// Element by element, by the definition.
template <typename T>
std::vector<T> expected_values(const std::vector<T>& storage, const StridedView& view,
                               std::int64_t first, std::int64_t count) {
  std::vector<T> out;
  for (std::int64_t e = first; e < first + count; ++e) {
    std::int64_t rest = e;
    std::int64_t at = static_cast<std::int64_t>(view.begin / sizeof(T));
    for (std::size_t axis = view.extents.size(); axis-- > 0;) {
      at += rest % view.extents[axis] * view.strides[axis];
      rest /= view.extents[axis];
    }
    out.push_back(storage[static_cast<std::size_t>(at)]);
  }
  return out;
}

template <typename T>
void check_view(std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                std::int64_t offset, std::int64_t first, std::int64_t count) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
  std::vector<T> storage(static_cast<std::size_t>(last) + 1);
  std::iota(storage.begin(), storage.end(), T{1});
  ASSERT_TRUE(view_fits(offset, extents, strides, std::ssize(storage)));
  ASSERT_FALSE(view_fits(offset, extents, strides, std::ssize(storage) - 1));
  const MemorySource source(std::as_bytes(std::span(storage)));
  const StridedView view{&source, sizeof(T),
                         static_cast<std::uint64_t>(offset) * sizeof(T),
                         std::move(extents), std::move(strides)};
  std::vector<T> out(static_cast<std::size_t>(count));
  ASSERT_TRUE(
      read_strided(view, first, count, std::as_writable_bytes(std::span(out))).ok());
  ASSERT_EQ(out, expected_values(storage, view, first, count));
}

TEST(Strided, Transposes) {
  for (std::int64_t first = 0; first < 6; ++first) {
    for (std::int64_t count = 0; count <= 6 - first; ++count) {
      check_view<std::uint32_t>({3, 2}, {1, 3}, 0, first, count);
      check_view<std::uint8_t>({3, 2}, {1, 3}, 5, first, count);
      check_view<std::uint64_t>({2, 3}, {3, 1}, 1, first, count);
    }
  }
}

TEST(Strided, LargerThanTheWindow) {
  check_view<std::uint32_t>({300, 1000}, {1, 300}, 0, 0, 300000);
  check_view<std::uint32_t>({300, 1000}, {1, 300}, 0, 12345, 200000);
  check_view<std::uint16_t>({1000, 300}, {1000, 3}, 7, 0, 300000);
  check_view<std::uint8_t>({2, 200000, 2}, {1, 4, 2}, 0, 3, 700000);
  check_view<std::uint64_t>({3, 100000}, {200001, 2}, 0, 1, 299999);
}

TEST(Strided, FarApart) {
  check_view<std::uint32_t>({5, 3}, {5000, 1000000}, 3, 0, 15);
  check_view<std::uint32_t>({5, 3}, {1000000, 5000}, 3, 2, 11);
}

TEST(Strided, RepeatedAndOverlappingElements) {
  check_view<std::uint32_t>({4, 3}, {0, 1}, 2, 0, 12);
  check_view<std::uint32_t>({4, 3}, {1, 0}, 2, 1, 10);
  check_view<std::uint32_t>({1000}, {0}, 0, 0, 1000);
  check_view<std::uint32_t>({4, 3}, {1, 1}, 0, 0, 12);
}

TEST(Strided, ScalarsAndSingleExtents) {
  check_view<std::uint32_t>({}, {}, 3, 0, 1);
  check_view<std::uint32_t>({1, 4, 1}, {99, 1, 77}, 0, 1, 3);
}

RC_GTEST_PROP(Strided, GathersByTheDefinition, ()) {
  const auto rank = *rc::gen::inRange<std::size_t>(0, 5);
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    extents.push_back(*rc::gen::inRange<std::int64_t>(1, 9));
    strides.push_back(*rc::gen::inRange<std::int64_t>(0, 40));
    elements *= extents.back();
  }
  const auto first = *rc::gen::inRange<std::int64_t>(0, elements);
  const auto count = *rc::gen::inRange<std::int64_t>(0, elements - first + 1);
  check_view<std::uint32_t>(extents, strides, *rc::gen::inRange<std::int64_t>(0, 10),
                            first, count);
  RC_ASSERT(!::testing::Test::HasFailure());
}

TEST(Strided, AWholeTransposeIsReadOnceAndForward) {
  std::vector<float> storage(std::size_t{1024} * 1024);
  const CountingSource source(std::as_bytes(std::span(storage)));
  const StridedView view{&source, 4, 0, {1024, 1024}, {1, 1024}};
  std::vector<float> out(storage.size());
  ASSERT_TRUE(
      read_strided(view, 0, std::ssize(out), std::as_writable_bytes(std::span(out)))
          .ok());
  EXPECT_TRUE(source.forward);
  EXPECT_EQ(source.bytes, storage.size() * 4);
  EXPECT_LE(source.largest, std::size_t{256} << 10);
  EXPECT_LE(source.reads, 17u);
}

TEST(Strided, WhatDoesNotFitIsSeen) {
  const auto fits = [](std::int64_t offset, std::vector<std::int64_t> extents,
                       std::vector<std::int64_t> strides, std::int64_t count) {
    return view_fits(offset, extents, strides, count);
  };
  EXPECT_TRUE(fits(0, {2, 3}, {3, 1}, 6));
  EXPECT_FALSE(fits(0, {2, 3}, {3, 1}, 5));
  EXPECT_FALSE(fits(1, {2, 3}, {3, 1}, 6));
  EXPECT_FALSE(fits(-1, {2, 3}, {3, 1}, 6));
  EXPECT_FALSE(fits(0, {2, 3}, {-3, 1}, 6));
  EXPECT_FALSE(fits(0, {2, -3}, {3, 1}, 6));
  EXPECT_FALSE(fits(0, {}, {}, 0));
  EXPECT_TRUE(fits(0, {}, {}, 1));
  EXPECT_TRUE(fits(100, {0, 3}, {3, 1}, 0));
  EXPECT_FALSE(fits(0, {INT64_MAX, 3}, {3, 1}, INT64_MAX));
  EXPECT_FALSE(fits(INT64_MAX, {3}, {INT64_MAX}, INT64_MAX));
  // 2^62 * 4 wraps to 0.
  EXPECT_FALSE(fits(0, {(std::int64_t{1} << 62) + 1}, {4}, 8));
}

}  // namespace
}  // namespace pith

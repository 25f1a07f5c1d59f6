#include "pith/tensor/shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "pith/tensor/view.h"

namespace pith {
namespace {

TEST(Shape, ScalarHasOneElement) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().rows(), 1);
  EXPECT_EQ(Shape().cols(), 1);
  EXPECT_EQ(Shape().to_string(), "[]");
}

TEST(Shape, RowsAndColumns) {
  const Shape shape = Shape::make({2, 3, 4}).value();
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.cols(), 4);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
}

TEST(Shape, ProductThatWrapsIsRefused) {
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_EQ(Shape::make({big, big}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Shape::make({0, big, big}));
  EXPECT_FALSE(Shape::make({big, big, 0}));
  EXPECT_FALSE(Shape::make({-2, -3}));
  EXPECT_TRUE(Shape::make({0, big}));
}

TEST(TensorView, BytesMustFitTheShape) {
  const std::vector<float> values(6);
  EXPECT_TRUE(TensorView::of(values, Shape::make({2, 3}).value()));
  const auto view = TensorView::of(values, Shape::make({2, 4}).value(), "w");
  EXPECT_EQ(view.error().message(),
            "tensor 'w': 24 bytes given, but shape [2, 4] of f32 has 32");
}

TEST(TensorView, HalfBytesAreRefused) {
  EXPECT_EQ(bytes_of(DType::kI4, Shape::make({4}).value()).value(), 2);
  EXPECT_FALSE(bytes_of(DType::kI4, Shape::make({3}).value()));
  EXPECT_FALSE(bytes_of(DType::kF64, Shape::make({INT64_MAX}).value()));
}

}  // namespace
}  // namespace pith

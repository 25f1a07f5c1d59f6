// Values, shapes and files for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pith/tensor/shape.h"

namespace pith::testing {

/// Normally distributed values, the same for the same seed.
inline std::vector<float> normal_values(std::size_t n, std::uint32_t seed, float mean = 0,
                                        float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

/// A shape that is known to be one.
inline Shape shape_of(std::initializer_list<std::int64_t> extents) {
  return Shape::make(extents).value();
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// All bytes of a file.
inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace pith::testing

// Safetensors files made in code.
//
//   SafetensorsBuilder file;
//   file.add("w", "F32", {2, 2}, ByteBuilder().f32(1).f32(2).f32(3).f32(4));
//   folder.write("model.safetensors", file.str());
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/byte_builder.h"

namespace pith::testing {

class SafetensorsBuilder {
 public:
  /// Adds a tensor; the bytes are not checked against type and shape. One that has the
  /// name already is replaced.
  SafetensorsBuilder& add(std::string_view name, std::string_view dtype,
                          const std::vector<std::int64_t>& shape, ByteBuilder data) {
    remove(name);
    tensors_.push_back({std::string(name), std::string(dtype),
                        fmt::format("{}", fmt::join(shape, ",")), std::move(data)});
    return *this;
  }
  SafetensorsBuilder& remove(std::string_view name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  /// `value` is written as a JSON string; quotes and backslashes are escaped.
  SafetensorsBuilder& metadata(std::string_view key, std::string_view value) {
    std::string escaped;
    for (const char c : value) {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
    metadata_.push_back(fmt::format(R"("{}":"{}")", key, escaped));
    return *this;
  }

  [[nodiscard]] std::string str() const {
    std::vector<std::string> entries;
    if (!metadata_.empty()) {
      entries.push_back(
          fmt::format(R"("__metadata__":{{{}}})", fmt::join(metadata_, ",")));
    }
    std::size_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      const std::size_t end = offset + tensor.data.size();
      entries.push_back(
          fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                      tensor.name, tensor.dtype, tensor.shape, offset, end));
      offset = end;
    }
    ByteBuilder file;
    file.counted(fmt::format("{{{}}}", fmt::join(entries, ",")));
    for (const Tensor& tensor : tensors_) file.text(tensor.data.str());
    return file.str();
  }

 private:
  struct Tensor {
    std::string name;
    std::string dtype;
    std::string shape;
    ByteBuilder data;
  };
  std::vector<Tensor> tensors_;
  std::vector<std::string> metadata_;
};

}  // namespace pith::testing

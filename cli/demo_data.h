// The files of examples/demo, put into the command when it is built.
#pragma once

#include <string_view>

namespace pith::cli {

std::string_view demo_model();  ///< model.safetensors: a network that reads digits
std::string_view demo_test();   ///< test.safetensors: images and labels

}  // namespace pith::cli

// What to do about NaN and infinity among the values of a tensor.
#pragma once

#include <cstdint>

namespace pith {

enum class NonFinite : std::uint8_t {
  kError,  ///< refuse: kNotFinite names the tensor and the index of the first
  kCount,  ///< pass over them in scales and figures, and count them; where codes are
           ///< made, NaN becomes the code of 0, infinity the largest or smallest code
};

}  // namespace pith

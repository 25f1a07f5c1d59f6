// Codes of runs of groups: what Quantizer hands to each task.
//
// Work goes in batches of whole groups, at most kErrorChunk elements each, so that the
// three steps of a batch (extremes, scales, codes) and its error figures find the values
// in the first-level cache. A longer group is scanned first, then encoded in batches
// with one scale.
#pragma once

#include <cstdint>

#include "pith/quantize/error.h"
#include "pith/quantize/quantize.h"
#include "src/quantize/extremes.h"
#include "src/quantize/group_scale.h"
#include "src/quantize/values.h"

namespace pith {

/// What went wrong first, in the order of elements.
struct Failure {
  enum Kind : std::uint8_t {
    kNone,
    kNonFinite,  ///< the element is NaN or infinite
    kOverflow,   ///< the scale of its group is infinite; value: an extreme of the group
    kBadScale,   ///< the stored scale of its group; value: that scale
    kChanged,    ///< larger than all values of the scan
  };
  Kind kind = kNone;
  std::int64_t element = 0;  ///< of the part
  float value = 0;

  explicit operator bool() const { return kind != kNone; }
};

struct CoderOptions {
  /// Where scales come from: the values of each group; one known scale; they are stored.
  enum class Scales : std::uint8_t { kFind, kOne, kStored };
  Scales scales = Scales::kFind;
  GroupScale one;
  std::uint32_t magnitude = 0;  ///< with `one`: bits that no value may exceed
  bool checked = false;         ///< with `one`: known to be finite and not to exceed it
  NonFinite non_finite = NonFinite::kError;
  bool figures = false;
  /// What errors are measured against, if not the values themselves.
  const float* originals = nullptr;
  bool stream = false;
};

/// Groups that follow each other: element `first` of the part is the first of group
/// `group`, whose codes begin at byte `code`.
struct Run {
  std::int64_t first;
  std::int64_t group;
  std::int64_t code;
  std::int64_t groups;
  std::int64_t size;
  std::int64_t last;  ///< elements of the last group

  [[nodiscard]] std::int64_t elements() const { return (groups - 1) * size + last; }

  /// At most `most` of these groups from the g-th on; `stride`: bytes of codes of a group.
  [[nodiscard]] Run part(std::int64_t g, std::int64_t most, std::int64_t stride) const {
    const bool ends = groups - g <= most;
    return {first + g * size,         group + g, code + g * stride,
            ends ? groups - g : most, size,      ends ? last : size};
  }
};

class Coder {
 public:
  /// All outlive the coder. `out` has room for the part, and its scales if they are found
  /// or stored.
  Coder(const Scheme& scheme, const Values& values, const CodeSpans& out,
        const CoderOptions& options);

  /// Encodes a run, and adds to `figures`, as elements from 0 on, if they are wanted.
  /// Thread-safe for runs that do not overlap.
  Failure encode(const Run& run, ErrorFigures& figures) const;

 private:
  struct Batch;
  /// Values that have been encoded, whose error is to be added.
  struct Measured {
    ErrorFigures* figures;
    std::int64_t offset;                 ///< of them among the elements of the figures
    const float* originals;              ///< what the errors are against
    const float* scales;                 ///< of their groups
    const std::int8_t* bytes = nullptr;  ///< codes of 4 bits, if they are there as bytes
    bool counted = false;                ///< what is saturated
    double reach = 0;  ///< no error is larger, in steps of their scales; 0: not known
  };
  /// What encode_plain() leaves behind for them, unless it is null.
  struct Plain {
    float* scales = nullptr;
    float* divisors = nullptr;
    std::int8_t* bytes = nullptr;
    std::int64_t saturated = 0;
  };

  bool encode_with_one_scale(const Run& run, const float* values) const;
  bool encode_measured(const Run& run, Plain& left, ErrorFigures& figures) const;
  [[nodiscard]] kernels::QuantizeGroups plain_args(const Run& run, const float* values,
                                                   Plain& left,
                                                   std::uint32_t largest) const;
  std::int64_t encode_plain(const Run& run, const float* values, Plain& left,
                            std::uint32_t largest = 0) const;
  std::int64_t encode_long_rows(const Run& run, ErrorFigures& figures,
                                std::int64_t offset) const;
  void measure_long_group(const Run& group, const float* values, const Plain& left,
                          ErrorFigures& figures, std::int64_t offset) const;
  void measure(const kernels::EncodeGroups& args, const Measured& of) const;
  static double reach_of(const Scheme& scheme);
  /// What the errors of values from element `first` of the part on are measured against.
  [[nodiscard]] const float* originals(std::int64_t first, const float* values) const {
    return options_.originals == nullptr ? values : options_.originals + first;
  }
  Failure encode_long_group(const Run& group, ErrorFigures& figures,
                            std::int64_t offset) const;
  Failure scan_long_group(const Run& group, CoderOptions& options) const;
  Failure encode_batch(const Run& run, Batch& batch) const;
  Failure find_scales(const Run& run, Batch& batch) const;
  Failure find_asymmetric_scales(const Run& run, Batch& batch) const;
  Failure read_scales(const Run& run, Batch& batch) const;
  void find_symmetric_extremes(const Run& run, Batch& batch) const;
  [[nodiscard]] kernels::EncodeGroups value_args(const Run& run,
                                                 const Batch& batch) const;
  void encode_values(const Run& run, Batch& batch) const;
  [[nodiscard]] GroupScale read_scale(std::int64_t group) const;
  void write_scale(std::int64_t group, const GroupScale& scale) const;
  /// What encode_groups has to know of groups whose codes begin at `code`; the caller
  /// fills in values and divisors.
  [[nodiscard]] kernels::EncodeGroups code_args(std::int64_t code,
                                                std::int64_t size) const;
  /// Where the scales of groups from `group` on are stored, whose codes begin at `code`.
  [[nodiscard]] kernels::FindScales scale_args_at(std::int64_t group, std::int64_t code,
                                                  std::int64_t size) const;

  const Scheme& scheme_;
  const Values& values_;
  const CodeSpans& out_;
  CoderOptions options_;
  bool plain_;    ///< the kernel that does all three steps knows the scheme
  bool halves_;   ///< codes are halves of bytes
  double reach_;  ///< of codes that encode_plain() makes; see Measured
  kernels::EncodeGroups code_args_;  ///< what all groups have in common
  kernels::FindScales scale_args_;
};

}  // namespace pith

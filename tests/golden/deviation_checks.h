// What the table of deviations can ask of Pith's answer to a case. Each returns what is
// wrong, or "".
#pragma once

#include <string>

#include "pith/base/result.h"
#include "tests/golden/case.h"

namespace pith::golden {

// Any error of the caller's; NaN or infinity named with its index.
std::string is_refused(const Case& item, const Result<Json>& answer);
std::string is_not_finite(const Case& item, const Result<Json>& answer);

// Scales and codes: deviations_quantize.cc.
std::string falls_back_to_maximum(const Case& item, const Result<Json>& answer);
std::string has_no_scale_floor(const Case& item, const Result<Json>& answer);
std::string zeros_have_scale_0(const Case& item, const Result<Json>& answer);
std::string has_zero_codes(const Case& item, const Result<Json>& answer);
std::string empty_ratio_is_1(const Case& item, const Result<Json>& answer);
std::string ratio_is_1(const Case& item, const Result<Json>& answer);
std::string counts_all_bytes(const Case& item, const Result<Json>& answer);
std::string has_no_one_bit(const Case& item, const Result<Json>& answer);
std::string keeps_blocks(const Case& item, const Result<Json>& answer);
std::string fp8_is_close(const Case& item, const Result<Json>& answer);
std::string e5m2_rounds_to_nearest(const Case& item, const Result<Json>& answer);
std::string message_is_not_larger(const Case& item, const Result<Json>& answer);
std::string keeps_nothing(const Case& item, const Result<Json>& answer);
std::string limits_are_0(const Case& item, const Result<Json>& answer);
std::string batching_does_not_matter(const Case& item, const Result<Json>& answer);
std::string aciq_covers_the_data(const Case& item, const Result<Json>& answer);

// Pruning and pipelines: deviations_prune.cc.
std::string sparsity_is_zeros_of_total(const Case& item, const Result<Json>& answer);
std::string prunes_by_magnitude(const Case& item, const Result<Json>& answer);
std::string units_are_whole(const Case& item, const Result<Json>& answer);
std::string keeps_nonzeros(const Case& item, const Result<Json>& answer);
std::string empty_passes_through(const Case& item, const Result<Json>& answer);
std::string sizes_follow_the_stages(const Case& item, const Result<Json>& answer);
std::string knows_embeddings(const Case& item, const Result<Json>& answer);
std::string skips_what_it_cannot_prune(const Case& item, const Result<Json>& answer);
std::string clips_exactly(const Case& item, const Result<Json>& answer);
std::string estimate_is_codes(const Case& item, const Result<Json>& answer);
std::string subnormals_become_zero(const Case& item, const Result<Json>& answer);

}  // namespace pith::golden

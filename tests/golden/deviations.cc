#include "tests/golden/deviations.h"

#include "tests/golden/deviation_checks.h"

namespace pith::golden {
namespace {

constexpr std::string_view kNotOffered = "does not offer this";
constexpr std::string_view kRefuses = "refuses it";
constexpr std::string_view kNamesElement = "refuses it and names the element";

// Tests of the library that show what the table says.
constexpr std::string_view kBlockwise = "src/codec/blockwise_test.cc";
constexpr std::string_view kTopK = "src/codec/top_k_test.cc";
constexpr std::string_view kCodec = "src/codec/codec_test.cc";
constexpr std::string_view kDynamic = "src/quantize/dynamic_test.cc";
constexpr std::string_view kQuantize = "src/quantize/quantize_test.cc";
constexpr std::string_view kScheme = "src/quantize/scheme_test.cc";
constexpr std::string_view kSmooth = "src/quantize/smooth_test.cc";
constexpr std::string_view kFp8 = "src/quantize/fp8_test.cc";
constexpr std::string_view kError = "src/quantize/error_test.cc";
constexpr std::string_view kHalf = "src/tensor/half_test.cc";
constexpr std::string_view kShape = "src/tensor/shape_test.cc";
constexpr std::string_view kStats = "src/calibrate/stats_test.cc";
constexpr std::string_view kScale = "src/calibrate/scale_test.cc";
constexpr std::string_view kMatvec = "src/run/matvec_test.cc";
constexpr std::string_view kPrune = "src/prune/prune_test.cc";
constexpr std::string_view kSparsity = "src/prune/importance_test.cc";
constexpr std::string_view kStage = "src/pipeline/stage_test.cc";
constexpr std::string_view kPipeline = "src/pipeline/pipeline_test.cc";
constexpr std::string_view kEstimate = "src/pipeline/estimate_test.cc";
constexpr std::string_view kNames = "src/pipeline/embeddings_test.cc";

// One unit in the last place apart: the reference has another formula in pruning than in
// compression.
constexpr std::string_view kSparsityCases =
    "mixed/009_uniform_1783 mixed/054_outlier_95 mixed/070_tiny_351 "
    "pruning/prune/sparsity_0.1 pruning/prune/n_3_sparsity_0.9 "
    "pruning/prune/floor_f32product_0.01_200 pruning/prune/floor_f32product_0.12_100 "
    "pruning/prune/floor_f32product_0.41_100 pruning/prune/ties_constant "
    "pruning/prune/zeros_and_negzeros pruning/prune/min_nonzero_5_row "
    "pruning/report/model";

constexpr Deviation kDeviations[] = {
    // Out of scope.
    {"", "tensor_ops/*", kNotOffered, nullptr, "", ""},
    {"", "int8_channel/one_bit/*", kNotOffered, nullptr, "", ""},
    {"one-bit-max-scale", "hazards/one_bit_of_small_weights", kNotOffered, nullptr, "",
     ""},
    {"one-bit-max-scale",
     "int8_channel/compare/normal_512 int8_channel/compare/heavy_200",
     "compares without the one-bit method, which it does not offer", has_no_one_bit,
     kError, "ErrorFigures.ByHand"},

    // NaN and infinity.
    {"inf-poisons", "blockwise/*", kNamesElement, is_not_finite, kBlockwise,
     "Blockwise.BadInputIsRefused"},
    {"nan-silent", "blockwise/*", kNamesElement, is_not_finite, kBlockwise,
     "Blockwise.BadInputIsRefused"},
    {"inf-poisons", "calibration/*", kNamesElement, is_not_finite, kStats,
     "ValueStats.RefusedBatchChangesNothing"},
    {"inf-poisons", "compression/*", kNamesElement, is_not_finite, kStage,
     "Stage.NotFiniteIsRefusedWithTensorAndIndex"},
    {"nan-silent", "compression/*", kNamesElement, is_not_finite, kStage,
     "Stage.NotFiniteIsRefusedWithTensorAndIndex"},
    {"inf-poisons",
     "dynamic_quant/compute_scale/inf_maxabs dynamic_quant/compute_scale/inf_pct_below",
     kNamesElement, is_not_finite, kQuantize, "ComputeScale.BadArguments"},
    {"nan-silent", "dynamic_quant/compute_scale/*", kNamesElement, is_not_finite,
     kQuantize, "ComputeScale.BadArguments"},
    {"inf-poisons", "dynamic_quant/*", kNamesElement, is_not_finite, kDynamic,
     "DynamicQuantize.NonfiniteValuesAreRefusedWithTheirIndex"},
    {"nan-silent", "dynamic_quant/*", kNamesElement, is_not_finite, kDynamic,
     "DynamicQuantize.NonfiniteValuesAreRefusedWithTheirIndex"},
    {"inf-poisons", "int8_channel/*", kNamesElement, is_not_finite, kQuantize,
     "Quantize.NonFiniteIsRefusedWithTensorAndIndex"},
    {"nan-silent", "int8_channel/*", kNamesElement, is_not_finite, kQuantize,
     "Quantize.NonFiniteIsRefusedWithTensorAndIndex"},
    {"inf-poisons", "matvec/*", kNamesElement, is_not_finite, kMatvec,
     "W8a8Matvec.ErrorsComeInAFixedOrder"},
    {"nan-silent", "matvec/*", kNamesElement, is_not_finite, kMatvec,
     "W8a8Matvec.ErrorsComeInAFixedOrder"},
    {"inf-poisons", "smoothquant/*", kNamesElement, is_not_finite, kSmooth,
     "SmoothFactors.BadOptionsAndMaximaAreRefused"},
    {"nan-silent", "smoothquant/*", kNamesElement, is_not_finite, kSmooth,
     "SmoothFactors.BadOptionsAndMaximaAreRefused"},
    {"nan-silent", "weights_int8/calibrator/*", kNamesElement, is_not_finite, kScale,
     "WeightRange.HoldsBothEnds"},
    {"inf-poisons", "weights_int8/*", kNamesElement, is_not_finite, kQuantize,
     "Quantize.NonFiniteIsRefusedWithTensorAndIndex"},
    {"nan-silent", "weights_int8/*", kNamesElement, is_not_finite, kQuantize,
     "Quantize.NonFiniteIsRefusedWithTensorAndIndex"},

    // Arguments out of their range, sizes that do not agree.
    {"alpha-clamped", "smoothquant/factors/*", kRefuses, is_refused, kSmooth,
     "SmoothFactors.BadOptionsAndMaximaAreRefused"},
    {"bad-given-scale", "weights_int8/*", kRefuses, is_refused, kScheme,
     "Scheme.PercentileAndGivenScaleAreCheckedOnlyWhenUsed"},
    {"percentile-clamped", "dynamic_quant/*", kRefuses, is_refused, kQuantize,
     "ComputeScale.BadArguments"},
    {"ragged-rows", "dynamic_quant/per_row/*", kRefuses, is_refused, kDynamic,
     "DynamicQuantize.RaggedInputIsRefused"},
    {"ragged-rows", "dynamic_quant/dequantize/*", kRefuses, is_refused, kDynamic,
     "DynamicQuantize.DequantizeChecksItsRows"},
    {"short-input-accepted", "smoothquant/*", kRefuses, is_refused, kSmooth,
     "ColumnAbsmax.ChecksSizes"},
    {"zero-factor", "smoothquant/*", kRefuses, is_refused, kSmooth,
     "SmoothApply.ChecksFactorsFirstThenSizes"},
    {"missing-scale", "blockwise/*", kRefuses, is_refused, kBlockwise,
     "Blockwise.BadInputIsRefused"},
    {"sparse-unchecked", "topk/*", kRefuses, is_refused, kTopK,
     "TopK.BadListsAreRefused"},
    {"shape-unchecked", "weights_int8/*", kRefuses, is_refused, kShape,
     "TensorView.BytesMustFitTheShape"},
    {"zero-scale-saturates", "int8_channel/channel/clip_zero",
     "refuses a given scale of 0", is_refused, kScheme,
     "Scheme.PercentileAndGivenScaleAreCheckedOnlyWhenUsed"},
    {"estimate-unchecked", "compression/*", kRefuses, is_refused, kEstimate,
     "Estimate.RefusesWhatARunRefuses"},

    // Scales and codes.
    {"percentile-zero-scale", "*",
     "takes the largest magnitude where the percentile is 0", falls_back_to_maximum,
     kDynamic, "DynamicQuantize.PercentileOfMostlyZerosFallsBackToTheLargest"},
    {"scale-floor", "weights_int8/from_f32/tiny_* weights_int8/from_f32/below_*",
     "has no floor under scales", has_no_scale_floor, kQuantize,
     "Quantize.SubnormalValuesKeepTheirCodes"},
    {"scale-floor", "weights_int8/from_f32/zeros", "gives zeros the scale 0",
     zeros_have_scale_0, kQuantize, "Quantize.RowsByHand"},
    {"empty-ratio-nan", "weights_int8/*", "says ratio 1 of nothing, and scale 0",
     empty_ratio_is_1, kQuantize, "Quantize.NothingGivesNothing"},
    {"ratio-of-nothing", "weights_int8/model/no_layers", "says ratio 1 of nothing",
     ratio_is_1, kPipeline, "Pipeline.RatioOfNothingIsOne"},
    {"bias-scale-uncounted", "weights_int8/*",
     "counts codes as the reference, and all stored bytes beside them", counts_all_bytes,
     kPipeline, "Pipeline.PruneThenQuantizeReportsBothStages"},
    {"zero-scale-saturates", "int8_channel/channel/subnormal_*",
     "gives zero codes to a scale that became 0", has_zero_codes, kQuantize,
     "Quantize.SubnormalValuesKeepTheirCodes"},
    {"zero-scale-saturates", "compression/quantize/subnormal_lost",
     "gives zero codes to a scale that became 0: no -0", subnormals_become_zero, kStage,
     "Stage.SubnormalsWithoutAScaleBecomePositiveZeros"},
    {"f16-scale-overflow", "*", "stores scales in f32 where f16 cannot hold them",
     keeps_blocks, kBlockwise, "Blockwise.ScalesThatF16CannotHoldAreStoredInF32"},
    {"f16-scale-underflow", "blockwise/*",
     "stores scales in f32 where f16 cannot hold them", keeps_blocks, kBlockwise,
     "Blockwise.ScalesThatF16CannotHoldAreStoredInF32"},
    {"f16-scale-underflow", "fp8_smooth/*",
     "never stores a scale of 0 for a block that is not zeros", fp8_is_close, kFp8,
     "Fp8Blocks.FiniteWeightsStayFiniteAndClose"},
    {"e5m2-block-max-inf", "fp8_smooth/*", "saturates: finite weights stay finite",
     fp8_is_close, kFp8, "Fp8Blocks.FiniteWeightsStayFiniteAndClose"},
    {"e5m2-block-max-inf", "fp8_smooth/e5m2/encode",
     "rounds to nearest up to the end of the range", e5m2_rounds_to_nearest, kHalf,
     "Fp8.KnownVectors"},
    {"topk-expands", "topk/*",
     "keeps the same values, and stores all of them where that is shorter",
     message_is_not_larger, kCodec, "Codec.TopKTakesTheShortestForm"},
    {"topk-min-one", "topk/compress/k_zero_*", "keeps nothing of a fraction of 0",
     keeps_nothing, kTopK, "TopK.CountTruncatesAndKeepsAtLeastOne"},
    {"topk-min-one", "topk/compress/k_negative", kRefuses, is_refused, kTopK,
     "TopK.CountTruncatesAndKeepsAtLeastOne"},

    // Statistics.
    {"calibrator-empty-inf", "weights_int8/*", kRefuses, is_refused, kScale,
     "WeightRange.HoldsBothEnds"},
    {"calibrator-empty-inf", "calibration/layer/none", "says 0 of nothing", limits_are_0,
     kStats, "ValueStats.OfNothingAreZero"},
    {"histogram-drops-zeros", "calibration/*",
     "counts zeros: one answer for every batching", batching_does_not_matter, kStats,
     "ValueStats.MedianDoesNotDependOnBatching"},
    {"aciq-not-centred", "calibration/*",
     "clips around zero by the mean square unless asked for the reference's rule",
     aciq_covers_the_data, kScale, "CalibratedScale.AciqCoversDataFarFromZero"},

    // Pruning.
    {"l2-square-range", "pruning/*", "compares magnitudes", prunes_by_magnitude, kPrune,
     "Prune.SquaresThatLeaveTheRangeMakeNoTies"},
    {"random-units-regular", "pruning/*", "hashes seed and index", units_are_whole,
     kPrune, "Prune.RandomRowsFollowNoStride"},
    {"min-nonzero-counts-kept", "pruning/*", "counts weights that are not zero",
     keeps_nonzeros, kPrune, "Prune.ElementsAreThoseOfASort"},
    {"empty-tensor-aborts", "pruning/*", "passes a tensor without elements through",
     empty_passes_through, kPrune, "Prune.ModelPassesThroughWhatItCannotPrune"},
    {"two-sparsity-formulas", kSparsityCases, "has one formula: zeros / total",
     sparsity_is_zeros_of_total, kSparsity, "Sparsity.OneFormulaAndNegativeZeroIsZero"},

    // Pipelines.
    {"empty-tensor-aborts", "compression/*", "passes a tensor without elements through",
     empty_passes_through, kPipeline,
     "Pipeline.EmptyTensorsAndVectorsPassThroughRowPruning"},
    {"structured-1d-aborts", "compression/*",
     "leaves tensors that are not two-dimensional as they are",
     skips_what_it_cannot_prune, kPipeline,
     "Pipeline.EmptyTensorsAndVectorsPassThroughRowPruning"},
    {"clip-ties",
     "compression/clip/constant_all_cleared compression/order/QCP compression/order/QCC",
     "zeroes as many as asked, ties by index", clips_exactly, kPipeline,
     "Pipeline.ClipTakesExactlyItsShareOfTies"},
    {"embedding-prefix", "compression/*",
     "looks at the words of a name; the reference's prefixes are an option",
     knows_embeddings, kNames, "EmbeddingNames.KnowsTheUsualNamesAnywhereInAName"},
    {"ratio-from-last-stage", "*", "keeps a tensor quantized whatever follows",
     sizes_follow_the_stages, kPipeline,
     "Pipeline.QuantizedTensorsStayQuantizedWhateverFollows"},
    {"estimate-compounds", "compression/estimate/*", "has one size model",
     estimate_is_codes, kEstimate, "Estimate.EqualsTheRunWhateverTheStages"},
    {"estimate-empty-zero", "compression/estimate/*",
     "estimates the size of the input without stages", estimate_is_codes, kEstimate,
     "Estimate.WithoutStagesIsTheInput"},
    {"estimate-compounds", "*", "has one size model", sizes_follow_the_stages, kEstimate,
     "Estimate.EqualsTheRunWhateverTheStages"},
};

}  // namespace

std::span<const Deviation> deviations() { return kDeviations; }

bool glob_matches(std::string_view glob, std::string_view text) {
  // The last `*` seen may take one more character whenever the rest does not fit.
  std::size_t g = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool covers(const Deviation& entry, const Case& item) {
  std::string_view rest = entry.cases;
  while (!rest.empty()) {
    const std::size_t space = rest.find(' ');
    const std::string_view glob = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    if (!glob_matches(glob, item.name)) continue;
    const bool in_full = glob.find('*') == std::string_view::npos;
    if (in_full || entry.defect.empty() || item.has_defect(entry.defect)) return true;
  }
  return false;
}

const Deviation* find_deviation(const Case& item) {
  for (const Deviation& entry : kDeviations) {
    if (covers(entry, item)) return &entry;
  }
  return nullptr;
}

}  // namespace pith::golden

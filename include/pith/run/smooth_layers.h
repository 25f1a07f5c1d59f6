// SmoothQuant from a statistics file to layers that run.
//
//   PITH_TRY(const pith::Observer stats, pith::read_statistics("stats.safetensors"));
//   PITH_TRY(const auto model, pith::Checkpoint::open("model.safetensors"));
//   PITH_TRY(pith::SmoothedLayers qkv,
//            pith::load_smoothed(*model, stats, {"l0.q_proj", "l0.k_proj", "l0.v_proj"},
//                                {.norm = "l0.input_layernorm"}));
//   engine.set_norm(qkv.norm_weight);        // in place of the model's
//   PITH_OK(qkv.layers[0].forward(x, rows, q));
//
// Layers that read the same input share its factors: they are found from the statistics of
// that input and the largest weights of all of them. Weights are multiplied by the factors and
// quantized. The input is divided by them in the norm that computes it, if that is named:
// nothing is left to do at run time; else in every layer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/calibrate/observer.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/scheme.h"
#include "pith/quantize/smooth.h"
#include "pith/run/linear.h"

namespace pith {

struct SmoothLayersOptions {
  SmoothOptions smooth = {};
  Scheme scheme = Scheme::int8_rows();
  /// Of the norm (or its weight) whose output the layers read, and nothing else does; empty:
  /// the layers divide their input.
  std::string norm = {};
  LinearOptions linear = {};  ///< without input_scale
};

struct SmoothedLayers {
  std::vector<Linear> layers;      ///< in the order of their names
  std::vector<float> factors;      ///< one per input
  std::vector<float> norm_weight;  ///< what the norm must have now; empty without one
  std::vector<float> norm_bias;    ///< likewise; empty if it has no bias
};

/// `names` are weights or their modules; the statistics of the first that has any are those
/// of the common input. Columns that are always 0 get factor 1.
///
/// kNotFound if a weight or the norm is missing; kInvalidArgument if there are no names or no
/// statistics, weights have different numbers of inputs, the norm or the statistics another,
/// or linear.input_scale is not empty; else fails as reading, quantize() and Linear::make().
Result<SmoothedLayers> load_smoothed(const Checkpoint& model, const Observer& statistics,
                                     std::span<const std::string> names,
                                     const SmoothLayersOptions& options = {});

}  // namespace pith

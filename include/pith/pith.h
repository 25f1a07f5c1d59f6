// All of Pith:
//
//   #include <pith/pith.h>
//
//   pith::Status shrink(const std::string& model) {
//     pith::CompressOptions options;
//     PITH_TRY(options.recipe, pith::recipe_from_flags({.quantize = "int8-row"}));
//     PITH_TRY(pith::Report report, pith::compress(model, "small.safetensors", options));
//     std::printf("%s", pith::report_summary(report).c_str());
//
//     PITH_TRY(pith::Linear layer, pith::Linear::load("small.safetensors", "fc1"));
//     std::vector<float> x(layer.inputs(), 1.0f), y(layer.outputs());
//     return layer.forward(x, 1, y);
//   }
#pragma once

#include "pith/base/result.h"
#include "pith/base/status.h"
#include "pith/base/threads.h"
#include "pith/base/version.h"
#include "pith/calibrate/observer.h"
#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"
#include "pith/calibrate/stats_file.h"
#include "pith/codec/blockwise.h"
#include "pith/codec/codec.h"
#include "pith/codec/top_k.h"
#include "pith/io/checkpoint.h"
#include "pith/io/convert_checkpoint.h"
#include "pith/io/tensor_stats.h"
#include "pith/io/writer.h"
#include "pith/pipeline/compress.h"
#include "pith/pipeline/pipeline.h"
#include "pith/pipeline/recipe.h"
#include "pith/prune/clip.h"
#include "pith/prune/importance.h"
#include "pith/prune/mask.h"
#include "pith/prune/prune.h"
#include "pith/prune/sparsity.h"
#include "pith/prune/stream.h"
#include "pith/quantize/convert.h"
#include "pith/quantize/dynamic.h"
#include "pith/quantize/error.h"
#include "pith/quantize/fp8.h"
#include "pith/quantize/quantize.h"
#include "pith/quantize/scheme.h"
#include "pith/quantize/smooth.h"
#include "pith/report/format.h"
#include "pith/report/report.h"
#include "pith/report/sample.h"
#include "pith/run/cpu.h"
#include "pith/run/linear.h"
#include "pith/run/matvec.h"
#include "pith/run/smooth_layers.h"
#include "pith/tensor/buffer.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/half.h"
#include "pith/tensor/shape.h"
#include "pith/tensor/view.h"

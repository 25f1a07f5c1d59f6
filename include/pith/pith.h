// All of Pith:
//
//   #include <pith/pith.h>
//
//   pith::Status shrink(std::span<float> weights, const pith::Shape& shape) {
//     PITH_TRY(auto pruned, pith::prune({"w", weights, shape}, {.sparsity = 0.5f}));
//     PITH_TRY(auto view, pith::TensorView::of(weights, shape, "w"));
//     PITH_TRY(auto small, pith::quantize(view, pith::Scheme::int8_rows()));
//     std::printf("%lld bytes\n", static_cast<long long>(small.stored_bytes()));
//     return {};
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
#include "pith/report/report.h"
#include "pith/report/sample.h"
#include "pith/run/cpu.h"
#include "pith/run/linear.h"
#include "pith/run/matvec.h"
#include "pith/tensor/buffer.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/half.h"
#include "pith/tensor/shape.h"
#include "pith/tensor/view.h"

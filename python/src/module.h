// The parts of the module, one per folder of the library.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/quantize.h"

namespace pith::python {

inline constexpr Word<Format> kFormats[] = {{"safetensors", Format::kSafetensors},
                                            {"gguf", Format::kGguf},
                                            {"npz", Format::kNpz},
                                            {"npy", Format::kNpy}};
inline constexpr Word<NonFinite> kNonFinite[] = {{"error", NonFinite::kError},
                                                 {"count", NonFinite::kCount}};

void add_quantize(nanobind::module_& m);   // Scheme, quantize, error figures
void add_dynamic(nanobind::module_& m);    // dynamic codes, conversion, smoothing
void add_prune(nanobind::module_& m);      // prune, masks, clip
void add_calibrate(nanobind::module_& m);  // statistics
void add_codec(nanobind::module_& m);      // messages
void add_run(nanobind::module_& m);        // Linear, matvec
void add_files(nanobind::module_& m);      // checkpoints
void add_report(nanobind::module_& m);     // what was done
void add_pipeline(nanobind::module_& m);   // plan, compress
void add_verify(nanobind::module_& m);     // verify, diff, restore

/// A Scheme, or the name of one.
Scheme to_scheme(nanobind::handle scheme);
/// The tensor of a QuantizedTensor of Python's.
bool is_quantized(nanobind::handle tensor);
const QuantizedTensor& to_quantized(nanobind::handle tensor);

/// A Checkpoint of Python's, or the one at a path, read through its compression.
std::shared_ptr<const Checkpoint> to_checkpoint(nanobind::handle source);

}  // namespace pith::python

// Statistics of activations in a file: what `pith calibrate` writes, and what SmoothQuant,
// Wanda and static scales read.
//
//   pith::Observer observer;
//   PITH_OK(pith::record_activations(observer, "layer0.npy", "model.layers.0.mlp.up_proj"));
//   PITH_OK(pith::write_statistics(observer, "stats.safetensors"));
//   PITH_TRY(pith::Observer again, pith::read_statistics("stats.safetensors"));
//
// The file is safetensors; docs/formats/statistics.md has its tensors. Layers bear the
// names of modules, so that the weight NAME.weight finds its statistics under NAME.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "pith/base/cancel.h"
#include "pith/base/result.h"
#include "pith/calibrate/observer.h"
#include "pith/io/writer.h"

namespace pith {

/// Writes the statistics of all layers. Sums of columns are rounded to double, so that
/// statistics merged from files differ from those of one run in the last bits only; all
/// else is kept exactly. kInvalidArgument if there is no layer, or two names are one with
/// an ending of the format; else fails as CheckpointWriter does.
Status write_statistics(const Observer& observer, const std::filesystem::path& path,
                        const WriteOptions& options = {});

/// Reads such a file. kUnsupported if it is another kind of file or a newer version;
/// kCorrupt if figures are missing or contradict each other: the message names the layer.
Result<Observer> read_statistics(const std::filesystem::path& path);

/// What record_activations() has seen.
struct RecordedFile {
  std::int64_t layers = 0;
  std::int64_t rows = 0;  ///< of all layers
  std::int64_t values = 0;
  bool statistics = false;  ///< the file had statistics, which were merged
};

/// Adds the activations of a file of any format that Checkpoint::open reads, piece by
/// piece: memory does not grow with the file. Each tensor of real numbers is a layer under
/// its own name; rows run along its last extent. `layer` names the only tensor of a file
/// (an npy file has no name for it). A file of statistics is merged.
///
/// kInvalidArgument if `layer` is given and there are several tensors, or is missing for
/// npy; kUnsupported if a file has no tensor of real numbers; kNotFinite as Observer.
/// What was added before a failure stays.
Result<RecordedFile> record_activations(Observer& observer,
                                        const std::filesystem::path& path,
                                        std::string_view layer = {},
                                        const CancelToken* cancel = nullptr);

}  // namespace pith

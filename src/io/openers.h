// The readers behind Checkpoint::open, one per format. Each takes an open file whose
// first bytes look like its format, and gives a Checkpoint or a refusal whose message
// begins with the file's name.
#pragma once

#include <memory>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "src/io/file.h"

namespace pith {

using CheckpointResult = Result<std::unique_ptr<Checkpoint>>;

CheckpointResult open_safetensors(InputFile file);
/// One safetensors file, or an index and its shards.
CheckpointResult open_safetensors_folder(const InputFolder& folder);
CheckpointResult open_gguf(InputFile file);
CheckpointResult open_npy(InputFile file);
/// A zip archive: npz, or PyTorch if it holds a `data.pkl`.
CheckpointResult open_zip(InputFile file);
/// A bare pickle: an old PyTorch file. Always a refusal, with advice.
CheckpointResult open_legacy_pickle(InputFile file);
/// A message of hivemind's wire format, which has no magic number.
CheckpointResult open_hivemind(InputFile file);

}  // namespace pith

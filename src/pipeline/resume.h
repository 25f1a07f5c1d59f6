// Continuing a run: what must agree, and what is believed.
#pragma once

#include "pith/base/result.h"
#include "pith/io/writer.h"
#include "src/pipeline/compress_plan.h"
#include "src/pipeline/journal.h"

namespace pith {

/// Version, recipe, options and input of a run. Two runs with equal ones write equal bytes.
[[nodiscard]] Fingerprint fingerprint_of(const CompressPlan& plan,
                                         const CompressOptions& options);

/// Takes over a tensor that the run before finished, if the bytes in the temporary output
/// have its checksums: the plan's record is filled in and the tensor marked as written.
/// False if they have not.
Result<bool> take_entry(CompressPlan& plan, const JournalEntry& entry,
                        CheckpointWriter& writer);

}  // namespace pith

// Formats whose reader is not part of this build yet.
#include "src/io/openers.h"

namespace pith {

CheckpointResult open_npy(InputFile file) {
  return Status::unsupported(file.name() + ": npy is not supported");
}
CheckpointResult open_zip(InputFile file) {
  return Status::unsupported(file.name() + ": zip archives are not supported");
}
CheckpointResult open_legacy_pickle(InputFile file) {
  return Status::unsupported(file.name() + ": pickles are not supported");
}
CheckpointResult open_hivemind(InputFile file) {
  return Status::unsupported(file.name() + ": hivemind messages are not supported");
}

}  // namespace pith

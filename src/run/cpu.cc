#include "pith/run/cpu.h"

#include "src/kernels/target.h"

namespace pith {

Result<std::string> active_isa() { return kernels::active_target(); }

std::vector<std::string> available_isas() { return kernels::available_targets(); }

}  // namespace pith

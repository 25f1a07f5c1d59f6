// A small report with one of everything, for tests: five tensors, two stages, and a name
// that would end a script.
#pragma once

#include "pith/report/report.h"

namespace pith {

Report example_report();

}  // namespace pith

#include <fmt/format.h>

#include "tests/golden/case.h"

namespace pith::golden {

std::string run_hazard(const Case& item) {
  throw BadCase(fmt::format("hazard '{}' is not known", item.name));
}

}  // namespace pith::golden

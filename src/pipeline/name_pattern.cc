#include <fmt/format.h>
#include <re2/re2.h>

#include "pith/base/glob.h"
#include "pith/pipeline/recipe.h"
#include "src/base/text.h"

namespace pith {

struct NamePattern::Expression {
  explicit Expression(const std::string& source) : re(source, quiet_options()) {}

  static RE2::Options quiet_options() {
    RE2::Options options(RE2::Quiet);
    options.set_max_mem(8 << 20);
    return options;
  }

  RE2 re;
};

Result<NamePattern> NamePattern::make(std::string_view text) {
  constexpr std::string_view kRegex = "re:";
  if (text.empty() || text == kRegex) {
    return Status::invalid_argument("the pattern is empty");
  }
  NamePattern pattern;
  pattern.text_ = text;
  if (!text.starts_with(kRegex)) {
    pattern.exact_ = text.find_first_of("*?[") == std::string_view::npos;
    return pattern;
  }
  pattern.exact_ = false;
  auto expression = std::make_shared<Expression>(std::string(text.substr(kRegex.size())));
  if (!expression->re.ok()) {
    return Status::invalid_argument(fmt::format("'{}' is no regular expression: {}",
                                                printable(text), expression->re.error()));
  }
  pattern.expression_ = std::move(expression);
  return pattern;
}

bool NamePattern::match(std::string_view name) const {
  if (exact_) return name == text_;
  if (expression_ == nullptr) return glob_match(text_, name);
  return RE2::FullMatch(re2::StringPiece(name.data(), name.size()), expression_->re);
}

}  // namespace pith

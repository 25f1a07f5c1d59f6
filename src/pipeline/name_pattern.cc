#include <fmt/format.h>
#include <re2/re2.h>

#include "pith/pipeline/recipe.h"

namespace pith {

struct NamePattern::Expression {
  RE2 re;
};

namespace {

RE2::Options quiet_options() {
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(8 << 20);
  return options;
}

std::string glob_to_regex(std::string_view glob) {
  std::string regex;
  for (const char c : glob) {
    if (c == '*') {
      regex += ".*";
    } else if (c == '?') {
      regex += ".";
    } else {
      regex += RE2::QuoteMeta(re2::StringPiece(&c, 1));
    }
  }
  return "(?s)" + regex;
}

}  // namespace

Result<NamePattern> NamePattern::make(std::string_view text) {
  constexpr std::string_view kRegex = "re:";
  if (text.empty() || text == kRegex)
    return Status::invalid_argument("the pattern is empty");
  NamePattern pattern;
  pattern.text_ = text;
  const bool regex = text.starts_with(kRegex);
  if (!regex && text.find_first_of("*?") == std::string_view::npos) return pattern;
  const std::string source =
      regex ? std::string(text.substr(kRegex.size())) : glob_to_regex(text);
  auto expression =
      std::make_shared<Expression>(Expression{RE2(source, quiet_options())});
  if (!expression->re.ok()) {
    return Status::invalid_argument(
        fmt::format("'{}' is no regular expression: {}", text, expression->re.error()));
  }
  pattern.expression_ = std::move(expression);
  return pattern;
}

bool NamePattern::match(std::string_view name) const {
  if (expression_ == nullptr) return name == text_;
  return RE2::FullMatch(re2::StringPiece(name.data(), name.size()), expression_->re);
}

}  // namespace pith

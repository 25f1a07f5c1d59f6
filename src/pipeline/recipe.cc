#include "pith/pipeline/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "src/base/nearest.h"

namespace pith {
namespace {

// Why a rule whose pattern fits leaves a tensor to the next; empty if it takes it.
std::string refusal(const Rule& rule, bool exact, const TensorHeader& tensor) {
  if (exact) return {};
  if (tensor.shape.rank() < rule.min_rank) {
    return fmt::format("rank {} below {}", tensor.shape.rank(), rule.min_rank);
  }
  if (tensor.shape.elements() < rule.min_elements) {
    return fmt::format("{} elements, fewer than {}", tensor.shape.elements(),
                       rule.min_elements);
  }
  return {};
}

RuleChoice choose_one(const Recipe& recipe, const TensorHeader& tensor,
                      std::vector<bool>& used) {
  RuleChoice choice;
  choice.reason = "no rule";
  for (std::size_t i = 0; i < recipe.rules.size(); ++i) {
    const Rule& rule = recipe.rules[i];
    for (const NamePattern& pattern : rule.match) {
      if (!pattern.match(tensor.name)) continue;
      if (recipe.skip_embeddings && !pattern.exact() && !rule.stages.empty() &&
          recipe.embedding_names.match(tensor.name)) {
        used[i] = true;
        choice.reason = "embedding";
        continue;
      }
      std::string reason = refusal(rule, pattern.exact(), tensor);
      if (!reason.empty()) {
        choice.reason = std::move(reason);
        continue;
      }
      used[i] = true;
      choice.rule = &rule;
      choice.reason = rule.stages.empty() ? "rule keeps it" : "";
      return choice;
    }
  }
  return choice;
}

// The error for a rule that takes nothing: an exact name is perhaps a slip.
Status unused_rule(const Rule& rule, std::span<const TensorHeader> tensors) {
  std::vector<std::string_view> names;
  for (const TensorHeader& tensor : tensors) names.push_back(tensor.name);
  std::string hint;
  if (rule.match.size() == 1 && rule.match[0].exact()) {
    if (const std::string_view near = nearest(rule.match[0].text(), names);
        !near.empty() && near != rule.match[0].text()) {
      hint = fmt::format(" Did you mean '{}'?", near);
    }
  }
  // What an earlier rule takes explains more than what none would.
  bool earlier = false;
  for (const TensorHeader& tensor : tensors) {
    if (earlier) break;
    for (const NamePattern& pattern : rule.match) {
      if (!pattern.match(tensor.name)) continue;
      const std::string reason = refusal(rule, pattern.exact(), tensor);
      earlier = reason.empty();
      if (earlier) {
        hint = fmt::format(" An earlier rule takes '{}'.", tensor.name);
      } else if (hint.empty()) {
        hint = fmt::format(" It fits '{}', which is left out: {}.", tensor.name, reason);
      }
      break;
    }
  }
  return Status::invalid_argument(
      fmt::format("{} takes none of the {} tensors.{}",
                  rule.flag.empty() ? "rule " + rule.to_string() : rule.to_string(),
                  tensors.size(), hint));
}

// Text in YAML.
std::string yaml_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string Rule::to_string() const {
  if (!flag.empty()) return flag;
  std::vector<std::string> patterns;
  for (const NamePattern& pattern : match)
    patterns.push_back(fmt::format("'{}'", pattern.text()));
  const std::string all = fmt::format("{}", fmt::join(patterns, ", "));
  return line > 0 ? fmt::format("{} (line {})", all, line) : all;
}

Result<std::vector<RuleChoice>> Recipe::choose(std::span<const TensorHeader> tensors,
                                               bool check_fit) const {
  std::vector<bool> used(rules.size(), false);
  std::vector<RuleChoice> choices;
  choices.reserve(tensors.size());
  for (const TensorHeader& tensor : tensors) {
    RuleChoice choice = choose_one(*this, tensor, used);
    if (choice.rule != nullptr && check_fit) {
      for (const StagePtr& stage : choice.rule->stages) {
        PITH_OK(stage->fits(tensor).with_context("rule " + choice.rule->to_string()));
      }
    }
    choices.push_back(std::move(choice));
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!used[i]) return unused_rule(rules[i], tensors);
  }
  return choices;
}

namespace {

// YAML that is made of flags: each of its lines of one.
class FlagLines {
 public:
  void add(std::string_view flag, const std::string& lines) {
    yaml_ += lines;
    flags_.resize(static_cast<std::size_t>(std::ranges::count(yaml_, '\n')), flag);
  }

  // The next rule is of such a flag.
  void ignores(const std::string& text) { ignored_.push_back(text); }

  // Its rules have no lines that anybody could look up, nor have errors.
  [[nodiscard]] Result<Recipe> parse() const {
    Result<Recipe> recipe = Recipe::parse(yaml_, kName);
    if (!recipe) return of_flag(recipe.error());
    for (Rule& rule : recipe->rules) rule.line = 0;
    for (std::size_t i = 0; i < ignored_.size(); ++i) {
      recipe->rules[i].flag = fmt::format("--ignore '{}'", ignored_[i]);
    }
    return recipe;
  }

 private:
  static constexpr std::string_view kName = "flags";

  // "flags:5: what" is of the flag that line 5 was made of.
  [[nodiscard]] Status of_flag(const Status& error) const {
    std::string_view what = error.message();
    if (!what.starts_with(kName) || !what.substr(kName.size()).starts_with(':')) {
      return error;
    }
    what.remove_prefix(kName.size() + 1);
    std::size_t line = 0;
    const auto [end, failed] =
        std::from_chars(what.data(), what.data() + what.size(), line);
    what.remove_prefix(static_cast<std::size_t>(end - what.data()));
    if (failed != std::errc() || line == 0 || line > flags_.size()) return error;
    // "--prune: prune: what" would say it twice.
    for (const std::string_view stage : {": prune", ": smooth"}) {
      if (what.starts_with(std::string(stage) + ": ")) what.remove_prefix(stage.size());
    }
    return {error.code(), std::string(flags_[line - 1]) + std::string(what)};
  }

  std::string yaml_;
  std::vector<std::string_view> flags_;
  std::vector<std::string> ignored_;  // of the first rules
};

}  // namespace

Result<Recipe> recipe_from_flags(const RecipeFlags& flags) {
  // Options of a stage, each on a line of its own.
  constexpr std::string_view kMore = ",\n";
  constexpr std::string_view kEnd = "}\n";
  FlagLines lines;
  lines.add("--skip-embeddings", flags.skip_embeddings
                                     ? "version: 1\nskip_embeddings: true\nrules:\n"
                                     : "version: 1\nrules:\n");
  for (const std::string& ignore : flags.ignore) {
    // A bare word is a regular expression that may be found anywhere in the name.
    // One that begins with a star can only be meant as a glob.
    const bool pattern = ignore.starts_with("re:") || ignore.starts_with('*');
    if (const auto alone = NamePattern::make(pattern ? ignore : "re:" + ignore); !alone) {
      return alone.error().with_context("--ignore");
    }
    lines.ignores(ignore);
    lines.add("--ignore",
              fmt::format("  - match: {}\n    min_rank: 0\n    stages: []\n",
                          yaml_text(pattern ? ignore : "re:.*(?:" + ignore + ").*")));
  }
  lines.add("--quantize", "  - match: '*'\n    stages:\n");
  if (!flags.prune.empty() || !flags.nm.empty()) {
    const bool metric = !flags.prune_metric.empty();
    const bool seed = flags.prune_metric == "random";
    const std::string_view end = metric ? kMore : kEnd;
    if (flags.nm.empty()) {
      lines.add("--prune",
                fmt::format("      - prune: {{sparsity: {}{}", flags.prune, end));
    } else {
      lines.add("--nm", fmt::format("      - prune: {{n_m: '{}'{}", flags.nm, end));
    }
    if (metric) {
      lines.add("--prune-metric", fmt::format("        importance: {}{}",
                                              flags.prune_metric, seed ? kMore : kEnd));
    }
    if (seed) lines.add("--seed", fmt::format("        seed: {}{}", flags.seed, kEnd));
  }
  if (!flags.smooth.empty()) {
    const bool alpha = !flags.alpha.empty();
    lines.add("--smooth", fmt::format("      - smooth: {{statistics: {}{}",
                                      yaml_text(flags.smooth), alpha ? kMore : kEnd));
    if (alpha)
      lines.add("--alpha", fmt::format("        alpha: {}{}", flags.alpha, kEnd));
  }
  if (flags.quantize == "fp16" || flags.quantize == "f16" || flags.quantize == "bf16") {
    lines.add("--quantize", fmt::format("      - convert: {}\n", flags.quantize));
  } else if (!flags.quantize.empty()) {
    lines.add("--quantize", fmt::format("      - quantize: {}\n", flags.quantize));
  }
  if (!flags.prune.empty() && !flags.nm.empty()) {
    return Status::invalid_argument("--prune and --nm are two ways to prune: give one");
  }
  if (!flags.prune_metric.empty() && flags.prune.empty() && flags.nm.empty()) {
    return Status::invalid_argument(
        "--prune-metric is an option of --prune and --nm: give one of them as well");
  }
  if (!flags.alpha.empty() && flags.smooth.empty()) {
    return Status::invalid_argument(
        "--alpha is an option of --smooth: give that as well");
  }
  if (flags.prune.empty() && flags.nm.empty() && flags.quantize.empty() &&
      flags.smooth.empty()) {
    return Status::invalid_argument(
        "nothing to do: give --quantize, --prune, --nm, --smooth or --recipe (see "
        "--help)");
  }
  return lines.parse();
}

}  // namespace pith

// Reads recipes. Strict: every key is known, every value has its type; an error has file and line.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cmath>
#include <set>

#include "pith/calibrate/stats_file.h"
#include "pith/pipeline/recipe.h"
#include "src/base/nearest.h"
#include "src/base/text.h"

namespace pith {
namespace {

constexpr std::size_t kMaxRecipeBytes = 1 << 20;

/// A place in the recipe, for messages.
struct Place {
  std::string_view file;

  [[nodiscard]] Status error(const YAML::Node& node, std::string_view what) const {
    return Status::invalid_argument(
        fmt::format("{}:{}: {}", file, node.Mark().line + 1, what));
  }
  [[nodiscard]] Status context(const YAML::Node& node, const Status& status) const {
    return status.ok() ? status : error(node, status.message());
  }
};

std::string shown(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return fmt::format("'{}'", printable(node.Scalar()));
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "nothing";
  }
}

/// Checks that a node is a mapping with keys of `known` only, each once.
Status check_keys(const Place& place, const YAML::Node& node, std::string_view what,
                  std::span<const std::string_view> known) {
  if (!node.IsMap()) {
    return place.error(node,
                       fmt::format("{} is {}, expected a mapping", what, shown(node)));
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return place.error(entry.first,
                         fmt::format("unknown key {} in {}.{}", shown(entry.first), what,
                                     suggestion(key, known)));
    }
    if (!seen.insert(key).second) {
      return place.error(entry.first, fmt::format("key '{}' is there twice", key));
    }
  }
  return {};
}

template <typename T>
Result<T> number(const Place& place, const YAML::Node& node, std::string_view key,
                 std::string_view kind) {
  T value{};
  if (!node.IsScalar() || !YAML::convert<T>::decode(node, value)) {
    return place.error(node,
                       fmt::format("{} is {}, expected {}", key, shown(node), kind));
  }
  return value;
}

Result<std::int64_t> whole_number(const Place& place, const YAML::Node& node,
                                  std::string_view key, std::int64_t least) {
  PITH_TRY(const auto value, number<std::int64_t>(place, node, key, "a whole number"));
  if (value < least) {
    return place.error(node,
                       fmt::format("{} is {}, expected at least {}", key, value, least));
  }
  return value;
}

/// The value of a word; `words` and `values` go together.
template <typename T, std::size_t N>
Result<T> word(const Place& place, const YAML::Node& node, std::string_view key,
               const std::array<std::string_view, N>& words,
               const std::array<T, N>& values) {
  if (!node.IsScalar()) {
    return place.error(node, fmt::format("{} is {}, expected a word", key, shown(node)));
  }
  for (std::size_t i = 0; i < N; ++i) {
    if (node.Scalar() == words[i]) return values[i];
  }
  return place.error(node, fmt::format("{} is {}.{}", key, shown(node),
                                       suggestion(node.Scalar(), words)));
}

Result<bool> truth(const Place& place, const YAML::Node& node, std::string_view key) {
  constexpr std::array<std::string_view, 2> kWords = {"true", "false"};
  return word<bool, 2>(place, node, key, kWords, {true, false});
}

constexpr std::array<std::string_view, 4> kImportances = {"l1", "l2", "taylor_proxy",
                                                          "random"};
constexpr std::array<Importance, 4> kImportanceValues = {
    Importance::kL1, Importance::kL2, Importance::kTaylorProxy, Importance::kRandom};

Result<StagePtr> read_prune(const Place& place, const YAML::Node& node) {
  constexpr std::array<std::string_view, 9> kKeys = {
      "sparsity", "importance", "granularity", "scope",     "min_nonzero",
      "seed",     "n_m",        "block_rows",  "block_cols"};
  PITH_OK(check_keys(place, node, "prune", kKeys));
  PruneOptions options;
  if (!node["sparsity"] && !node["n_m"]) {
    return place.error(node, "prune needs sparsity (in [0, 1)) or n_m (such as 2:4)");
  }
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    const YAML::Node& value = entry.second;
    if (key == "sparsity") {
      PITH_TRY(options.sparsity, number<float>(place, value, key, "a number"));
    } else if (key == "importance") {
      PITH_TRY(options.importance,
               word(place, value, key, kImportances, kImportanceValues));
    } else if (key == "granularity") {
      constexpr std::array<std::string_view, 4> kWords = {"element", "row", "column",
                                                          "block"};
      PITH_TRY(options.granularity,
               word<Granularity, 4>(place, value, key, kWords,
                                    {Granularity::kElement, Granularity::kRow,
                                     Granularity::kColumn, Granularity::kBlock}));
    } else if (key == "scope") {
      constexpr std::array<std::string_view, 3> kWords = {"tensor", "row", "global"};
      PITH_TRY(options.scope, word<PruneScope, 3>(place, value, key, kWords,
                                                  {PruneScope::kTensor, PruneScope::kRow,
                                                   PruneScope::kGlobal}));
    } else if (key == "min_nonzero") {
      PITH_TRY(options.min_nonzero, whole_number(place, value, key, 0));
    } else if (key == "seed") {
      PITH_TRY(options.seed, number<std::uint64_t>(place, value, key, "a whole number"));
    } else if (key == "block_rows") {
      PITH_TRY(options.block_rows, whole_number(place, value, key, 1));
    } else if (key == "block_cols") {
      PITH_TRY(options.block_cols, whole_number(place, value, key, 1));
    } else if (key == "n_m") {
      long long n = 0;
      long long m = 0;
      int used = 0;
      if (!value.IsScalar() ||
          std::sscanf(value.Scalar().c_str(), "%lld:%lld%n", &n, &m, &used) != 2 ||
          static_cast<std::size_t>(used) != value.Scalar().size()) {
        return place.error(
            value, fmt::format("n_m is {}, expected N:M such as 2:4", shown(value)));
      }
      options.granularity = Granularity::kNM;
      options.n = n;
      options.m = m;
    }
  }
  PITH_OK(place.context(node, check(options)));
  return prune_stage(options);
}

Result<Scheme> read_scheme(const Place& place, const YAML::Node& node) {
  if (node.IsScalar()) {
    Result<Scheme> scheme = scheme_from_name(node.Scalar());
    if (!scheme) return place.context(node, scheme.error());
    return scheme;
  }
  constexpr std::array<std::string_view, 11> kKeys = {
      "scheme", "bits",       "symmetric", "group",    "block_size", "scale_type",
      "rule",   "percentile", "range",     "rounding", "given_scale"};
  PITH_OK(check_keys(place, node, "quantize", kKeys));
  Scheme scheme;
  if (node["scheme"]) {
    PITH_TRY(scheme, read_scheme(place, node["scheme"]));
  }
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    const YAML::Node& value = entry.second;
    if (key == "bits") {
      PITH_TRY(const auto bits, whole_number(place, value, key, 1));
      scheme.bits = static_cast<int>(std::min<std::int64_t>(bits, 64));
    } else if (key == "symmetric") {
      PITH_TRY(scheme.symmetric, truth(place, value, key));
      if (!scheme.symmetric) scheme.range = Range::kFull;
    } else if (key == "group") {
      constexpr std::array<std::string_view, 4> kWords = {"tensor", "row", "block",
                                                          "flat_block"};
      PITH_TRY(scheme.group, word<Group, 4>(place, value, key, kWords,
                                            {Group::kTensor, Group::kRow, Group::kBlock,
                                             Group::kFlatBlock}));
    } else if (key == "block_size") {
      PITH_TRY(scheme.block_size, whole_number(place, value, key, 1));
    } else if (key == "scale_type") {
      constexpr std::array<std::string_view, 3> kWords = {"f32", "f16", "bf16"};
      PITH_TRY(scheme.scale_type,
               word<DType, 3>(place, value, key, kWords,
                              {DType::kF32, DType::kF16, DType::kBF16}));
    } else if (key == "rule") {
      constexpr std::array<std::string_view, 5> kWords = {"absmax", "percentile", "given",
                                                          "half_range", "signed_max"};
      PITH_TRY(scheme.rule,
               word<ScaleRule, 5>(
                   place, value, key, kWords,
                   {ScaleRule::kAbsmax, ScaleRule::kPercentile, ScaleRule::kGiven,
                    ScaleRule::kHalfRange, ScaleRule::kSignedMax}));
    } else if (key == "percentile") {
      PITH_TRY(scheme.percentile, number<double>(place, value, key, "a number"));
      if (!node["rule"]) scheme.rule = ScaleRule::kPercentile;
    } else if (key == "given_scale") {
      PITH_TRY(scheme.given_scale, number<float>(place, value, key, "a number"));
      if (!node["rule"]) scheme.rule = ScaleRule::kGiven;
    } else if (key == "range") {
      constexpr std::array<std::string_view, 2> kWords = {"symmetric", "full"};
      PITH_TRY(scheme.range, word<Range, 2>(place, value, key, kWords,
                                            {Range::kSymmetric, Range::kFull}));
    } else if (key == "rounding") {
      constexpr std::array<std::string_view, 3> kWords = {"half_away", "half_even",
                                                          "half_up"};
      PITH_TRY(scheme.rounding,
               word<Rounding, 3>(
                   place, value, key, kWords,
                   {Rounding::kHalfAway, Rounding::kHalfEven, Rounding::kHalfUp}));
    }
  }
  PITH_OK(place.context(node, scheme.validate()));
  return scheme;
}

Result<float> read_percentile(const Place& place, const YAML::Node& node,
                              std::string_view stage) {
  constexpr std::array<std::string_view, 1> kKeys = {"percentile"};
  YAML::Node value = node;
  if (node.IsMap()) {
    PITH_OK(check_keys(place, node, stage, kKeys));
    value.reset(node["percentile"]);
  }
  return number<float>(place, value, "percentile", "a number");
}

Result<StagePtr> read_smooth(const Place& place, const YAML::Node& node) {
  constexpr std::array<std::string_view, 3> kKeys = {"statistics", "alpha", "epsilon"};
  SmoothOptions options;
  YAML::Node path = node;
  if (node.IsMap()) {
    PITH_OK(check_keys(place, node, "smooth", kKeys));
    if (node["alpha"]) {
      PITH_TRY(options.alpha, number<float>(place, node["alpha"], "alpha", "a number"));
      PITH_OK(place.context(node["alpha"], options.validate()));
    }
    if (node["epsilon"]) {
      PITH_TRY(options.epsilon,
               number<float>(place, node["epsilon"], "epsilon", "a number"));
    }
    if (node["statistics"]) path.reset(node["statistics"]);
  }
  if (!path.IsScalar() || path.Scalar().empty()) {
    return place.error(node, "smooth needs statistics: a file of 'pith calibrate'");
  }
  PITH_OK(place.context(node, options.validate()));
  Result<Observer> statistics = read_statistics(path.Scalar());
  if (!statistics) {
    return statistics.error().with_context(
        fmt::format("{}:{}", place.file, path.Mark().line + 1));
  }
  return smooth_stage(std::make_shared<Observer>(*std::move(statistics)), options);
}

constexpr std::array<std::string_view, 7> kStages = {
    "prune", "clip", "limit", "smooth", "quantize", "convert", "store"};

Status read_stage(const Place& place, const YAML::Node& node, Rule& rule) {
  if (!node.IsMap() || node.size() != 1) {
    return place.error(
        node, fmt::format("a stage is {}, expected one of {} with its options, such "
                          "as 'quantize: int8-row'",
                          shown(node), fmt::join(kStages, ", ")));
  }
  const YAML::Node name = node.begin()->first;
  const YAML::Node value = node.begin()->second;
  const std::string key = name.IsScalar() ? name.Scalar() : "";
  StagePtr stage;
  if (key == "prune") {
    PITH_TRY(stage, read_prune(place, value));
  } else if (key == "clip") {
    PITH_TRY(const float percentile, read_percentile(place, value, key));
    stage = clip_stage(percentile);
  } else if (key == "limit") {
    PITH_TRY(const float percentile, read_percentile(place, value, key));
    stage = limit_stage(percentile);
  } else if (key == "smooth") {
    PITH_TRY(stage, read_smooth(place, value));
  } else if (key == "quantize") {
    PITH_TRY(const Scheme scheme, read_scheme(place, value));
    stage = quantize_stage(scheme);
  } else if (key == "convert") {
    constexpr std::array<std::string_view, 4> kWords = {"f16", "bf16", "f32", "fp16"};
    PITH_TRY(const DType dtype,
             word<DType, 4>(place, value, key, kWords,
                            {DType::kF16, DType::kBF16, DType::kF32, DType::kF16}));
    stage = convert_stage(dtype);
  } else if (key == "store") {
    constexpr std::array<std::string_view, 3> kWords = {"auto", "dense", "sparse"};
    PITH_TRY(rule.store, word<StoreMode, 3>(
                             place, value, key, kWords,
                             {StoreMode::kAuto, StoreMode::kDense, StoreMode::kSparse}));
    return {};
  } else {
    return place.error(
        name, fmt::format("unknown stage {}.{}", shown(name), suggestion(key, kStages)));
  }
  PITH_OK(place.context(node, stage->validate()));
  rule.stages.push_back(std::move(stage));
  return {};
}

Status read_match(const Place& place, const YAML::Node& node, Rule& rule) {
  if (node.IsSequence() && node.size() > 0) {
    for (const YAML::Node& item : node) PITH_OK(read_match(place, item, rule));
    return {};
  }
  if (!node.IsScalar()) {
    return place.error(
        node, fmt::format("match is {}, expected a pattern or a list of patterns",
                          shown(node)));
  }
  Result<NamePattern> pattern = NamePattern::make(node.Scalar());
  if (!pattern) return place.context(node, pattern.error());
  rule.match.push_back(*std::move(pattern));
  return {};
}

Result<Rule> read_rule(const Place& place, const YAML::Node& node) {
  constexpr std::array<std::string_view, 4> kKeys = {"match", "min_rank", "min_elements",
                                                     "stages"};
  PITH_OK(check_keys(place, node, "a rule", kKeys));
  Rule rule;
  rule.line = node.Mark().line + 1;
  if (!node["match"]) return place.error(node, "a rule has no 'match'");
  if (!node["stages"]) {
    return place.error(
        node, "a rule has no 'stages'; 'stages: []' keeps its tensors as they are");
  }
  PITH_OK(read_match(place, node["match"], rule));
  if (node["min_rank"]) {
    PITH_TRY(const auto rank, whole_number(place, node["min_rank"], "min_rank", 0));
    rule.min_rank = static_cast<std::size_t>(rank);
  }
  if (node["min_elements"]) {
    PITH_TRY(rule.min_elements,
             whole_number(place, node["min_elements"], "min_elements", 0));
  }
  const YAML::Node stages = node["stages"];
  if (!stages.IsSequence()) {
    return place.error(stages,
                       fmt::format("stages is {}, expected a list", shown(stages)));
  }
  for (const YAML::Node& stage : stages) PITH_OK(read_stage(place, stage, rule));
  return rule;
}

Result<Recipe> read_recipe(const Place& place, const YAML::Node& root) {
  constexpr std::array<std::string_view, 3> kKeys = {"version", "skip_embeddings",
                                                     "rules"};
  PITH_OK(check_keys(place, root, "the recipe", kKeys));
  if (!root["version"] || !root["version"].IsScalar() ||
      root["version"].Scalar() != "1") {
    return place.error(root["version"] ? root["version"] : root,
                       fmt::format("version is {}, expected 1",
                                   root["version"] ? shown(root["version"]) : "missing"));
  }
  Recipe recipe;
  if (root["skip_embeddings"]) {
    PITH_TRY(recipe.skip_embeddings,
             truth(place, root["skip_embeddings"], "skip_embeddings"));
  }
  const YAML::Node rules = root["rules"];
  if (!rules || !rules.IsSequence() || rules.size() == 0) {
    return place.error(rules ? rules : root, "rules is no list with at least one rule");
  }
  for (const YAML::Node& node : rules) {
    PITH_TRY(Rule rule, read_rule(place, node));
    recipe.rules.push_back(std::move(rule));
  }
  return recipe;
}

}  // namespace

Result<Recipe> Recipe::parse(std::string_view yaml, std::string_view file) {
  const Place place{file};
  if (yaml.size() > kMaxRecipeBytes) {
    return Status::invalid_argument(fmt::format("{}: {} bytes, a recipe has at most {}",
                                                file, yaml.size(), kMaxRecipeBytes));
  }
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    PITH_TRY(Recipe recipe, read_recipe(place, root));
    recipe.text = yaml;
    return recipe;
  } catch (const YAML::Exception& error) {  // yaml-cpp knows no other way
    return Status::invalid_argument(
        fmt::format("{}:{}: {}", file, error.mark.line + 1, error.msg));
  }
}

}  // namespace pith

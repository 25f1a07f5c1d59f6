// A recipe: what is done to which tensors. Written as YAML, or built from a few flags.
//
//   version: 1
//   skip_embeddings: true
//   rules:
//     - match: "re:.*\\.mlp\\..*"
//       stages:
//         - prune: {sparsity: 0.5, importance: l2}
//         - smooth: {statistics: stats.safetensors, alpha: 0.5}
//         - quantize: int8-row
//     - match: "*.weight"
//       stages:
//         - quantize: {bits: 4, group: block, block_size: 32, scale_type: f16}
//
// Rules are read from top to bottom, and the first that takes a tensor decides. A pattern is a glob (`*`
// any text, `?` one character, `[ab]` one of these) or `re:` and a regular expression (RE2), each of the whole name. A
// rule takes tensors of rank 2 and more unless it says otherwise (`min_rank`, `min_elements`) or names one
// exactly; so biases and norms stay as they are. What no rule takes is kept.
//
// Whatever is wrong is found before any weight is read: an unknown key is an error with its line and the
// nearest known word, a rule that matches nothing is an error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/pipeline/embeddings.h"
#include "pith/pipeline/stage.h"

namespace pith {

/// How a tensor that was pruned is stored.
enum class StoreMode : std::uint8_t {
  kAuto,    ///< sparse where that is smaller, else dense
  kDense,   ///< all codes
  kSparse,  ///< a bit mask and the codes of kept weights
};

/// Matches the whole name of a tensor.
class NamePattern {
 public:
  /// A glob, or `re:` and a regular expression. kInvalidArgument says what is wrong with it.
  static Result<NamePattern> make(std::string_view text);

  [[nodiscard]] bool match(std::string_view name) const;
  /// True if it has neither wildcards nor is a regular expression: it names one tensor.
  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Expression;
  std::string text_;
  bool exact_ = true;
  std::shared_ptr<const Expression> expression_;
};

struct Rule {
  std::vector<NamePattern> match;  ///< any of them
  std::size_t min_rank = 2;        ///< of tensors that are not named exactly
  std::int64_t min_elements = 1;   ///< likewise
  std::vector<StagePtr> stages;    ///< in order; none: the tensor is kept as it is
  StoreMode store = StoreMode::kAuto;
  int line = 0;      ///< of the recipe; 0 if it has none
  std::string flag;  ///< that it was made of, if its patterns are not what was typed

  /// The flag, or the patterns and their line.
  [[nodiscard]] std::string to_string() const;
};

/// Which rule takes a tensor.
struct RuleChoice {
  const Rule* rule = nullptr;  ///< null: none, the tensor is kept
  std::string reason;          ///< why it is kept: "vector", "embedding", "no rule", ...
};

struct Recipe {
  std::vector<Rule> rules;
  bool skip_embeddings = false;
  EmbeddingNames embedding_names = {};
  std::string text;  ///< as it was read, for the report and the fingerprint

  /// Reads YAML. kInvalidArgument: `file:line: what was found, what was expected`.
  static Result<Recipe> parse(std::string_view yaml, std::string_view file = "recipe");

  /// One choice per tensor, in order. kInvalidArgument if a rule takes no tensor at all (with the
  /// nearest name for an exact one), or (unless they are not to be checked) a stage does not fit a
  /// tensor it was given; the message has the rule and the tensor.
  [[nodiscard]] Result<std::vector<RuleChoice>> choose(
      std::span<const TensorHeader> tensors, bool check_fit = true) const;
};

/// The flags of the command line for common cases.
struct RecipeFlags {
  std::string prune = {};         ///< sparsity, "0.5"
  std::string prune_metric = {};  ///< l1, l2, taylor_proxy, random
  std::string nm = {};            ///< "2:4"
  std::string smooth = {};        ///< file of statistics
  std::string alpha = {};         ///< of smoothing, "0.5"
  std::string quantize = {};      ///< a name of scheme_names(), or fp16, bf16
  std::vector<std::string> ignore =
      {};  ///< patterns; a bare one is a regular expression, found anywhere
  bool skip_embeddings = false;
  std::uint64_t seed = 0;
};

/// The recipe that the flags mean; its text is the YAML one would have written.
Result<Recipe> recipe_from_flags(const RecipeFlags& flags);

/// The scheme of a name: int8, int8-row, int8-block64, int8-flat64, int4, int4-row, int4-g32, w8a8, w8a16,
/// w4a16, q8_0, q4_0; numbers in names may be others. kInvalidArgument with the nearest name.
Result<Scheme> scheme_from_name(std::string_view name);
/// Names that scheme_from_name takes, for messages and help.
std::span<const std::string_view> scheme_names();

}  // namespace pith

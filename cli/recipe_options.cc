#include "cli/recipe_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iterator>

namespace pith::cli {

void add_recipe_options(CLI::App& command, RecipeOptions& options) {
  RecipeFlags& flags = options.flags;
  command
      .add_option(
          "--quantize", flags.quantize,
          fmt::format("How weights are stored: {}, fp16, bf16; other numbers than "
                      "64, 32 and 128 may stand in a name",
                      fmt::join(scheme_names(), ", ")))
      ->type_name("SCHEME");
  command
      .add_option(
          "--prune", flags.prune,
          "Zero this share of the weights of each tensor, the least important ones; "
          "in [0, 1)")
      ->type_name("SHARE");
  command
      .add_option(
          "--prune-metric", flags.prune_metric,
          "What makes a weight important: l1 (default), l2, taylor_proxy or random")
      ->type_name("METRIC");
  command
      .add_option("--nm", flags.nm,
                  "Keep N of each M consecutive weights of a row, such as 2:4")
      ->type_name("N:M");
  command
      .add_option(
          "--smooth", flags.smooth,
          "SmoothQuant: move the outliers of activations into the weights, by the "
          "statistics of 'pith calibrate'")
      ->type_name("STATS");
  command
      .add_option("--alpha", flags.alpha,
                  "How much of them --smooth moves, in [0, 1]; 0.5 unless told")
      ->type_name("A");
  command
      .add_option(
          "--ignore", flags.ignore,
          "Keep tensors whose name has this regular expression in it; may be given "
          "several times")
      ->type_name("RE");
  command.add_flag("--skip-embeddings", flags.skip_embeddings,
                   "Keep embeddings and heads, told by their names: embed_tokens, wte, "
                   "token_embd, lm_head, ...");
  command.add_option("--seed", flags.seed, "For --prune-metric random")->type_name("N");
  command
      .add_option("--recipe", options.file,
                  "A YAML file with rules, instead of the flags above")
      ->type_name("FILE");
}

Result<Recipe> make_recipe(const RecipeOptions& options) {
  const RecipeFlags& flags = options.flags;
  if (options.file.empty()) return recipe_from_flags(flags);
  if (!flags.quantize.empty() || !flags.prune.empty() || !flags.nm.empty() ||
      !flags.ignore.empty() || !flags.prune_metric.empty() || !flags.smooth.empty() ||
      !flags.alpha.empty() || flags.skip_embeddings) {
    return Status::invalid_argument(
        "--recipe says everything: give it without --quantize, --prune, --nm, --smooth, "
        "--ignore and --skip-embeddings");
  }
  std::ifstream file(options.file, std::ios::binary);
  if (!file) {
    return Status::not_found(fmt::format("{}: cannot be opened", options.file));
  }
  constexpr std::size_t kMost = 1 << 20;
  std::string text(kMost + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return Recipe::parse(text, options.file);
}

}  // namespace pith::cli

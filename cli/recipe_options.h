// What is done to which tensors, on the command line: a recipe, or flags that mean one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pith/base/result.h"
#include "pith/pipeline/recipe.h"

namespace pith::cli {

struct RecipeOptions {
  std::string file;
  RecipeFlags flags;
};

/// --recipe, --quantize, --prune, --prune-metric, --nm, --ignore, --skip-embeddings, --seed
void add_recipe_options(CLI::App& command, RecipeOptions& options);

/// Reads the file, or makes the recipe that the flags mean. kInvalidArgument if both are
/// given, or neither.
Result<Recipe> make_recipe(const RecipeOptions& options);

}  // namespace pith::cli

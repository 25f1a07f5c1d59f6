#include "pith/pipeline/recipe.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

namespace pith {
namespace {

TensorHeader tensor(std::string name, std::initializer_list<std::int64_t> extents) {
  return {std::move(name), Shape::make(extents).value()};
}

std::vector<TensorHeader> small_headers() {
  return {tensor("model.embed_tokens.weight", {512, 64}),
          tensor("model.layers.0.mlp.up_proj.weight", {172, 64}),
          tensor("model.layers.0.self_attn.q_proj.weight", {64, 64}),
          tensor("model.norm.weight", {64})};
}

std::string message(std::string_view yaml) {
  const Result<Recipe> recipe = Recipe::parse(yaml, "r.yaml");
  return recipe ? "" : recipe.error().message();
}

TEST(NamePattern, GlobAndRegexMatchTheWholeName) {
  EXPECT_TRUE(NamePattern::make("*.mlp.*").value().match("a.mlp.b"));
  EXPECT_FALSE(NamePattern::make("mlp*").value().match("a.mlp.b"));
  EXPECT_FALSE(NamePattern::make("a.mlp.b").value().match("aXmlpXb"));
  EXPECT_TRUE(NamePattern::make("re:.*mlp.b").value().match("a.mlpXb"));
  EXPECT_FALSE(NamePattern::make("re:mlp").value().match("a.mlp.b"));
  EXPECT_TRUE(NamePattern::make("a?c").value().match("a.c"));
  EXPECT_EQ(NamePattern::make("re:(").error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(NamePattern::make(""));
}

TEST(Recipe, FirstRuleThatTakesATensorDecides) {
  const Recipe recipe = Recipe::parse(R"(
version: 1
skip_embeddings: true
rules:
  - match: "*.mlp.*"
    stages:
      - prune: {sparsity: 0.5, importance: l2}
      - quantize: int8-row
  - match: "*"
    stages: [{quantize: q8_0}]
)")
                            .value();
  const auto model = small_headers();
  const auto choices = recipe.choose(model).value();
  EXPECT_EQ(choices[0].rule, nullptr);
  EXPECT_EQ(choices[0].reason, "embedding");
  ASSERT_EQ(choices[1].rule, &recipe.rules[0]);
  ASSERT_EQ(choices[1].rule->stages.size(), 2u);
  EXPECT_EQ(choices[1].rule->stages[0]->name(), "prune");
  EXPECT_EQ(choices[2].rule, &recipe.rules[1]);
  EXPECT_EQ(choices[3].rule, nullptr);
  EXPECT_EQ(choices[3].reason, "rank 1 below 2");
}

TEST(Recipe, ExactNamesTakeVectorsAndEmbeddings) {
  const Recipe recipe = Recipe::parse(R"(
version: 1
skip_embeddings: true
rules:
  - match: [model.norm.weight, model.embed_tokens.weight]
    stages: [{convert: f16}]
)")
                            .value();
  const auto model = small_headers();
  const auto choices = recipe.choose(model).value();
  EXPECT_NE(choices[0].rule, nullptr);
  EXPECT_NE(choices[3].rule, nullptr);
  EXPECT_EQ(choices[1].reason, "no rule");
}

TEST(Recipe, RuleThatTakesNothingIsAnError) {
  const auto model = small_headers();
  const auto choose = [&](std::string_view match) {
    return Recipe::parse(
               fmt::format("version: 1\nrules:\n  - match: '{}'\n    stages: []\n",
                           match))
        .value()
        .choose(model)
        .error()
        .message();
  };
  EXPECT_EQ(
      choose("model.norms.weight"),
      "rule 'model.norms.weight' (line 3) takes none of the 4 tensors. Did you mean "
      "'model.norm.weight'?");
  EXPECT_EQ(choose("*.bias"), "rule '*.bias' (line 3) takes none of the 4 tensors.");
  EXPECT_EQ(
      choose("*norm*"),
      "rule '*norm*' (line 3) takes none of the 4 tensors. It fits 'model.norm.weight', "
      "which is left out: rank 1 below 2.");
}

TEST(Recipe, BlockThatDoesNotDivideARowIsFoundBeforehand) {
  const Recipe recipe =
      Recipe::parse(
          "version: 1\nrules: [{match: '*', stages: [{quantize: int4-g128}]}]\n")
          .value();
  const Status status = recipe.choose(small_headers()).error();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("model.embed_tokens.weight"), std::string::npos);
  EXPECT_NE(status.message().find("128"), std::string::npos);
}

TEST(Recipe, ErrorsHaveLineAndNearestWord) {
  EXPECT_EQ(
      message(
          "version: 1\nrules:\n  - match: '*'\n    stages:\n      - quantise: int8\n"),
      "r.yaml:5: unknown stage 'quantise'. Did you mean 'quantize'?");
  EXPECT_EQ(message("version: 1\nrules:\n  - match: '*'\n    stage: []\n"),
            "r.yaml:4: unknown key 'stage' in a rule. Did you mean 'stages'?");
  EXPECT_EQ(
      message("version: 1\nrules:\n  - match: '*'\n    stages: [{quantize: int9}]\n"),
      "r.yaml:4: unknown scheme 'int9'. Did you mean 'int8'?");
  EXPECT_EQ(message("version: 2\nrules: []\n"), "r.yaml:1: version is '2', expected 1");
  EXPECT_EQ(message("rules: []\n"), "r.yaml:1: version is missing, expected 1");
  EXPECT_EQ(message("version: 1\nversion: 1\nrules: []\n"),
            "r.yaml:2: key 'version' is there twice");
  EXPECT_NE(
      message(
          "version: 1\nrules:\n  - match: '*'\n    stages: [{prune: {sparsity: 1.2}}]\n")
          .find("1.2"),
      std::string::npos);
  EXPECT_NE(message("version: 1\nrules: [\n").find("r.yaml:"), std::string::npos);
  EXPECT_NE(
      message("version: 1\nrules:\n  - match: '*'\n    stages: [{prune: {n_m: 2/4}}]\n")
          .find("expected N:M such as 2:4"),
      std::string::npos);
}

TEST(Recipe, FlagsMeanARecipe) {
  RecipeFlags flags;
  flags.prune = "0.5";
  flags.prune_metric = "l2";
  flags.quantize = "int8-row";
  flags.ignore = {"q_proj"};
  const Recipe recipe = recipe_from_flags(flags).value();
  const auto model = small_headers();
  const auto choices = recipe.choose(model).value();
  EXPECT_EQ(choices[1].rule->stages.size(), 2u);
  EXPECT_EQ(choices[2].reason, "rule keeps it");
  EXPECT_EQ(recipe_from_flags({}).error().code(), StatusCode::kInvalidArgument);
  flags.prune = "1.5";
  EXPECT_FALSE(recipe_from_flags(flags));
}

TEST(SchemeNames, NumbersMayBeOthers) {
  EXPECT_EQ(scheme_from_name("int4-g64").value(), Scheme::int4_blocks(64));
  EXPECT_EQ(scheme_from_name("int8-block32").value(), Scheme::int8_blocks(32));
  EXPECT_EQ(scheme_from_name("q4_0").value(), Scheme::q4_0());
  EXPECT_FALSE(scheme_from_name("int4-g0"));
  EXPECT_FALSE(scheme_from_name("int4-g"));
  for (const std::string_view name : scheme_names())
    EXPECT_TRUE(scheme_from_name(name)) << name;
}

}  // namespace
}  // namespace pith

#include "pith/pipeline/embeddings.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

TEST(EmbeddingNames, KnowsTheUsualNamesAnywhereInAName) {
  const EmbeddingNames names;
  for (const char* name :
       {"model.embed_tokens.weight", "transformer.wte.weight", "wte",
        "tok_embeddings.weight", "token_embd.weight", "lm_head.weight",
        "model.lm_head/kernel", "transformer.wpe.weight",
        "bert.embeddings.word_embeddings.weight", "Embedding_layer", "TOKEN_EMBEDDING",
        "gpt_neox.embed_in.weight", "embed_out.weight"}) {
    EXPECT_TRUE(names.match(name)) << name;
  }
}

TEST(EmbeddingNames, KnowsHeadsAndTablesByTheirWholeName) {
  const EmbeddingNames names;
  EXPECT_TRUE(names.match("output.weight"));
  EXPECT_TRUE(names.match("shared.weight"));
  EXPECT_FALSE(names.match("output_norm.weight"));
  EXPECT_FALSE(names.match("blk.0.attn_output.weight"));
  EXPECT_FALSE(names.match("encoder.shared.weight"));
}

TEST(EmbeddingNames, OtherWordsAreNoEmbeddings) {
  const EmbeddingNames names;
  for (const char* name : {"", ".", "tokenizer_head.weight", "TOKENS", "embedded_mlp.fc",
                           "lm.header", "head_lm", "model.layers.0.mlp.up_proj.weight",
                           "reembed.weight", "wtex", "lm_heads"}) {
    EXPECT_FALSE(names.match(name)) << name;
  }
}

TEST(EmbeddingNames, WordsOfOnesOwnAreAdded) {
  EmbeddingNames names;
  names.words.push_back("Code_Book");
  EXPECT_TRUE(names.match("quantizer.code_book.weight"));
  EXPECT_TRUE(names.match("quantizer.code.book"));
  EXPECT_FALSE(names.match("quantizer.codebook.weight"));
  names.words = {"", "_"};
  EXPECT_FALSE(names.match("anything"));
}

TEST(EmbeddingNames, TheReferenceLooksAtTheBeginningOnly) {
  const EmbeddingNames names = EmbeddingNames::reference();
  EXPECT_TRUE(names.match("embed.weight"));
  EXPECT_TRUE(names.match("EMBEDDED_mlp.fc"));
  EXPECT_TRUE(names.match("tokenizer_head.weight"));
  EXPECT_FALSE(names.match("model.embed_tokens.weight"));
  EXPECT_FALSE(names.match("lm_head.weight"));
  EXPECT_FALSE(names.match("embe"));
}

}  // namespace
}  // namespace pith

// Which tensors are embeddings, told by their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pith {

/// Names are looked at in words: what stands between characters that are neither letters
/// nor digits. Upper and lower case (ASCII) are the same.
///
///   pith::EmbeddingNames names;                        // the usual ones
///   names.match("model.embed_tokens.weight");          // true: "embed"
///   names.match("model.layers.0.embedded_mlp.weight");  // false: another word
///   names.words.push_back("codebook");
struct EmbeddingNames {
  /// Words, or several in a row joined by `_`, that make a tensor an embedding wherever
  /// they stand in its name. lm_head is one: it often shares its weights with the input.
  std::vector<std::string> words = {"embed", "embedding", "embeddings", "embd",
                                    "wte",   "wpe",       "lm_head"};
  /// Beginnings of the whole name that do so too: GGUF's head, T5's table.
  std::vector<std::string> prefixes = {"output.weight", "shared.weight"};

  [[nodiscard]] bool match(std::string_view name) const;

  /// What the reference knows: names that begin with `embed` or `token`. It misses
  /// `model.embed_tokens.weight` and takes `tokenizer_head.weight`.
  static EmbeddingNames reference();
};

}  // namespace pith

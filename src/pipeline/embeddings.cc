#include "pith/pipeline/embeddings.h"

namespace pith {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// "_model_embed_tokens_weight_" for "model.Embed_tokens/weight": one `_` around each
// word, so that a search for "_embed_" finds whole words only.
std::string words_of(std::string_view name) {
  std::string words = "_";
  for (char c : name) {
    if (is_word(lower(c))) {
      words += lower(c);
    } else if (words.back() != '_') {
      words += '_';
    }
  }
  if (words.back() != '_') words += '_';
  return words;
}

bool begins_with(std::string_view name, std::string_view prefix) {
  if (name.size() < prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (lower(name[i]) != lower(prefix[i])) return false;
  }
  return true;
}

}  // namespace

bool EmbeddingNames::match(std::string_view name) const {
  const std::string text = words_of(name);
  for (const std::string& word : words) {
    const std::string wanted = words_of(word);
    if (wanted.size() > 1 && text.find(wanted) != std::string::npos) return true;
  }
  for (const std::string& prefix : prefixes) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

EmbeddingNames EmbeddingNames::reference() {
  EmbeddingNames names;
  names.words.clear();
  names.prefixes = {"embed", "token"};
  return names;
}

}  // namespace pith

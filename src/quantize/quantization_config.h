// `quantization_config` of a config.json, as compressed-tensors writes it:
//
//   {"quantization_config": {"quant_method": "compressed-tensors", "format": F,
//     "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4,
//       "type": "int", "symmetric": true, "strategy": "group", "group_size": 128}}},
//     "ignore": ["lm_head"]}}
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "src/io/file.h"

namespace re2 {
class RE2;
}

namespace pith {

/// How the codes of a weight lie in the file.
enum class CtFormat : std::uint8_t {
  kDense,   ///< not compressed
  kPlain,   ///< int-quantized, float-quantized, naive-quantized: one element per code
  kPacked,  ///< pack-quantized: codes in 32-bit words
};

enum class CtStrategy : std::uint8_t { kTensor, kChannel, kGroup, kBlock };

/// The `weights` of a group.
struct CtWeights {
  int bits = 8;
  bool is_float = false;
  bool symmetric = true;
  CtStrategy strategy = CtStrategy::kTensor;
  std::int64_t group_size = 0;  ///< kGroup: columns; kBlock: columns of a block
  std::int64_t block_rows = 1;  ///< kBlock
};

/// Names of modules: exact, by regular expression (`re:`, from the start of the name), or of
/// a class such as Linear, which a file does not tell.
class ModuleNames {
 public:
  enum class Match : std::uint8_t { kNone, kClass, kExpression, kExact };

  ModuleNames();
  ~ModuleNames();
  ModuleNames(ModuleNames&&) noexcept;
  ModuleNames& operator=(ModuleNames&&) noexcept;

  /// kUnsupported if an expression is none that RE2 knows, or the 1001st.
  Status add(std::string_view name);
  /// The closest match; kClass if no name matches, but a class could.
  [[nodiscard]] Match match(std::string_view module) const;

 private:
  std::set<std::string, std::less<>> exact_;
  std::vector<std::unique_ptr<re2::RE2>> expressions_;
  bool has_class_ = false;
};

struct CtGroup {
  std::string name;  ///< "group_0"
  CtFormat format = CtFormat::kDense;
  ModuleNames targets;
  std::optional<CtWeights> weights;  ///< none if only activations are quantized
};

struct CtConfig {
  std::vector<CtGroup> groups;
  ModuleNames ignore;

  /// The group of a module that has quantized weights: the closest match. kCorrupt if there
  /// is none; kUnsupported if two match equally well.
  [[nodiscard]] Result<const CtGroup*> group_of(std::string_view module) const;
};

/// Text of a config.json; kCorrupt if it is longer than any is.
Result<std::string> read_config(const InputFile& file);

/// `quant_method`, or "" for a model that is not quantized. kCorrupt if the text is no JSON
/// object.
Result<std::string> quantization_method(std::string_view config);

/// True if it says `tie_word_embeddings`: the head is the embedding, whether or not it is
/// stored. False for a text that is no JSON.
bool ties_embeddings(std::string_view config);

/// kCorrupt names the key that is missing or wrong; kUnsupported a format, strategy or
/// number of bits that is not read.
Result<CtConfig> parse_compressed_tensors(std::string_view config);

}  // namespace pith

#include "src/pipeline/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "pith/quantize/dense.h"
#include "src/io/pieces.h"
#include "src/quantize/measure.h"

namespace pith {
namespace {

// What one piece found.
struct Found {
  ErrorFigures figures;
  bool same = true;
};

bool same_values(std::span<const float> a, std::span<const float> b) {
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

class Comparison {
 public:
  Comparison(const Checkpoint& a, const Checkpoint& b) : a_(a), b_(b) {}

  Result<std::vector<ComparedTensor>> run(const VerifyOptions& options) {
    PieceList list(a_, options.max_memory);
    std::vector<std::size_t> first_piece;
    for (std::size_t i = 0; i < a_.tensors().size(); ++i) {
      first_piece.push_back(list.pieces().size());
      if (pair(i)) {
        PITH_OK(
            list.add_aligned(i, std::max<std::int64_t>(1, a_.tensors()[i].shape.cols())));
      }
    }
    found_.resize(list.pieces().size());
    const PieceOptions piece_options{options.cancel, &options.progress};
    PITH_OK(for_each_piece(list, piece_options, [&]() -> PieceFunction {
      auto readers = std::make_shared<Readers>(a_, b_);
      return [this, &first_piece, readers](const Piece& piece) {
        return compare(
            *readers, piece,
            found_[first_piece[piece.tensor] + static_cast<std::size_t>(piece.number)]);
      };
    }));
    for (std::size_t p = 0; p < found_.size(); ++p) {
      ComparedTensor& tensor = tensors_[list.pieces()[p].tensor];
      tensor.error->merge(found_[p].figures, 0);
      tensor.same = tensor.same && found_[p].same;
    }
    for (std::size_t i = 0; i < b_.tensors().size(); ++i) {
      const TensorInfo& info = b_.tensors()[i];
      if (a_.find(info.name)) continue;
      ComparedTensor only;
      only.name = info.name;
      only.shape = info.shape;
      only.dtype_b = info.encoding.name;
      only.problem = "only in the second";
      tensors_.push_back(std::move(only));
    }
    return std::move(tensors_);
  }

 private:
  struct Readers {
    Readers(const Checkpoint& a, const Checkpoint& b) : first(a), second(b) {}
    PieceReader first;
    PieceReader second;
  };

  // True if there are two tensors to compare.
  bool pair(std::size_t i) {
    const TensorInfo& info = a_.tensors()[i];
    ComparedTensor& tensor = tensors_.emplace_back();
    tensor.name = info.name;
    tensor.shape = info.shape;
    tensor.dtype_a = info.encoding.name;
    const std::optional<std::size_t> other = b_.find(info.name);
    others_.push_back(other.value_or(0));
    if (!other) {
      tensor.problem = "missing in the second";
      return false;
    }
    const TensorInfo& second = b_.tensors()[*other];
    tensor.dtype_b = second.encoding.name;
    if (second.shape != info.shape) {
      tensor.problem = fmt::format("shape {}, expected {}", second.shape.to_string(),
                                   info.shape.to_string());
      return false;
    }
    if (!info.encoding.decodable || !second.encoding.decodable) {
      tensor.problem = "cannot be decoded";
      return false;
    }
    tensor.same = true;
    tensor.error.emplace();
    return true;
  }

  Status compare(Readers& readers, const Piece& piece, Found& found) {
    PITH_TRY(const std::span<const float> before, readers.first.values(piece));
    Piece second = piece;
    second.tensor = others_[piece.tensor];
    PITH_TRY(const std::span<const float> after, readers.second.values(second));
    for (std::int64_t i = 0; i < piece.count; i += kErrorChunk) {
      add_chunk(found.figures, before.data() + i, after.data() + i,
                std::min(kErrorChunk, piece.count - i), piece.begin + i);
    }
    found.same = same_values(before, after);
    return {};
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  std::vector<ComparedTensor> tensors_;
  std::vector<std::size_t> others_;  // in b, of each of a
  std::vector<Found> found_;         // of each piece
};

}  // namespace

Result<std::vector<ComparedTensor>> compare_checkpoints(const Checkpoint& a,
                                                        const Checkpoint& b,
                                                        const VerifyOptions& options) {
  return Comparison(a, b).run(options);
}

Result<DiffResult> diff(const std::filesystem::path& a, const std::filesystem::path& b,
                        const VerifyOptions& options) {
  PITH_TRY(const std::unique_ptr<Checkpoint> first, open_dense(a));
  PITH_TRY(const std::unique_ptr<Checkpoint> second, open_dense(b));
  DiffResult result;
  PITH_TRY(result.tensors, compare_checkpoints(*first, *second, options));
  for (const ComparedTensor& tensor : result.tensors) {
    ++(tensor.same ? result.same : result.differ);
  }
  return result;
}

}  // namespace pith

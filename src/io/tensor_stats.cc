#include "pith/io/tensor_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>

#include "src/io/pieces.h"
#include "src/kernels/power_sums.h"

namespace pith {
namespace {

using kernels::PowerSums;

constexpr std::int64_t kSamples = 65536;

// Where the mean is so much larger than the deviation that sums of powers about zero cannot
// tell them apart, sums about the mean are taken in a second pass. Above this ratio of
// variance to second moment at least five digits of the kurtosis are right without it:
// the sums are right to some 1e-8, of which the ratio squared is lost.
constexpr double kDrowned = 0.05;

// What is known of a tensor while its pieces come in, in any order.
struct Gathered {
  std::vector<PowerSums> pieces;  // by their number
  std::vector<float> samples;     // in the order of the tensor
  std::int64_t stride = 1;        // every stride-th value is a sample
  std::int64_t missing = 0;       // pieces
};

void take_samples(Gathered& gathered, const Piece& piece, std::span<const float> values) {
  const std::int64_t stride = gathered.stride;
  std::int64_t sample = (piece.begin + stride - 1) / stride;
  for (std::int64_t i = sample * stride - piece.begin; i < piece.count; i += stride) {
    gathered.samples[static_cast<std::size_t>(sample++)] =
        values[static_cast<std::size_t>(i)];
  }
}

void fill_histogram(const Gathered& gathered, TensorStats& stats) {
  for (const float sample : gathered.samples) {
    if (!std::isfinite(sample)) continue;
    constexpr auto kBins = static_cast<double>(TensorStats::kBins);
    // absmax itself belongs to the last bin; a tensor of zeros to the middle.
    const double place =
        stats.absmax > 0 ? (sample / stats.absmax + 1) / 2 * kBins : kBins / 2;
    const auto bin = static_cast<std::size_t>(std::clamp(place, 0.0, kBins - 1));
    ++stats.histogram[bin];
    ++stats.sampled;
  }
}

// Sums of the first four powers of x - origin.
using Sums = std::array<double, PowerSums::kPowers>;

// Mean, and moments about it, from sums over all finite values.
void set_moments(const Sums& sums, double origin, TensorStats& stats) {
  const auto n = static_cast<double>(stats.finite());
  const double mean = sums[0] / n;
  const double second = sums[1] - mean * sums[0];
  const double fourth = sums[3] - 4 * mean * sums[2] + 6 * mean * mean * sums[1] -
                        3 * mean * mean * mean * sums[0];
  const double variance = std::max(0.0, second / n);
  stats.mean = origin + mean;
  stats.deviation = std::sqrt(variance);
  // Never below 1, but for rounding.
  stats.kurtosis = variance > 0 ? std::max(1.0, fourth / n / (variance * variance)) : 0;
}

TensorStats finish(const TensorInfo& tensor, const Gathered& gathered) {
  TensorStats stats;
  stats.elements = tensor.shape.elements();
  PowerSums all;
  Sums sums = {};
  for (const PowerSums& piece : gathered.pieces) {
    for (std::size_t power = 0; power < sums.size(); ++power) {
      sums[power] += piece.sums[power];
    }
    all.min = std::min(all.min, piece.min);
    all.max = std::max(all.max, piece.max);
    stats.zeros += piece.zeros;
    stats.nan += piece.nan;
    stats.infinite += piece.infinite;
  }
  if (stats.finite() == 0) return stats;
  stats.min = all.min;
  stats.max = all.max;
  stats.absmax = std::max(std::abs(stats.min), std::abs(stats.max));
  if (stats.min == stats.max) {
    stats.mean = stats.min;
  } else {
    set_moments(sums, 0, stats);
  }
  fill_histogram(gathered, stats);
  return stats;
}

bool needs_second_pass(const TensorStats& stats) {
  const double variance = stats.deviation * stats.deviation;
  return stats.min != stats.max &&
         variance < kDrowned * (variance + stats.mean * stats.mean);
}

class Gatherer {
 public:
  Gatherer(const Checkpoint& checkpoint, const StatsOptions& options)
      : checkpoint_(checkpoint), options_(options), stats_(checkpoint.tensors().size()) {}

  Status first_pass(std::span<const std::size_t> tensors) {
    PieceList list(checkpoint_, options_.max_memory);
    gathered_.resize(stats_.size());
    pieces_.resize(stats_.size());
    for (const std::size_t tensor : tensors) {
      PITH_OK(list.add(tensor));
      stats_[tensor].elements = checkpoint_.tensors()[tensor].shape.elements();
    }
    for (const Piece& piece : list.pieces()) pieces_[piece.tensor] = piece.number + 1;
    return for_each_piece(
        list, {options_.cancel, &options_.progress}, [this]() -> PieceFunction {
          auto reader = std::make_shared<PieceReader>(
              checkpoint_, PieceReader::room_within(options_.max_memory));
          return [this, reader](const Piece& piece) -> Status {
            PITH_TRY(const std::span<const float> values, reader->values(piece));
            take(piece, values);
            return {};
          };
        });
  }

  Status second_pass(std::span<const std::size_t> tensors) {
    PieceList list(checkpoint_, options_.max_memory);
    for (const std::size_t tensor : tensors) {
      if (needs_second_pass(stats_[tensor])) PITH_OK(list.add(tensor));
    }
    std::vector<Sums> sums(list.pieces().size());
    const Piece* first = list.pieces().data();
    PITH_OK(for_each_piece(list, {options_.cancel, nullptr}, [&]() -> PieceFunction {
      auto reader = std::make_shared<PieceReader>(
          checkpoint_, PieceReader::room_within(options_.max_memory));
      return [&, reader](const Piece& piece) -> Status {
        PITH_TRY(const std::span<const float> values, reader->values(piece));
        sums[static_cast<std::size_t>(&piece - first)] =
            central_sums(values, stats_[piece.tensor].mean);
        return {};
      };
    }));
    for (std::size_t i = 0; i < sums.size();) {
      const std::size_t tensor = list.pieces()[i].tensor;
      Sums all = {};
      for (; i < sums.size() && list.pieces()[i].tensor == tensor; ++i) {
        for (std::size_t power = 0; power < all.size(); ++power) {
          all[power] += sums[i][power];
        }
      }
      set_moments(all, stats_[tensor].mean, stats_[tensor]);
    }
    return {};
  }

  [[nodiscard]] const TensorStats& stats(std::size_t tensor) const {
    return stats_[tensor];
  }

 private:
  static Sums central_sums(std::span<const float> values, double mean) {
    Sums sums = {};
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      const double x = value - mean;
      sums[0] += x;
      sums[1] += x * x;
      sums[2] += x * x * x;
      sums[3] += x * x * (x * x);
    }
    return sums;
  }

  // The tensor's, made with its first piece: memory is taken only for tensors in work.
  Gathered& gathered(std::size_t tensor) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Gathered>& entry = gathered_[tensor];
    if (entry == nullptr) {
      entry = std::make_unique<Gathered>();
      const std::int64_t elements = stats_[tensor].elements;
      entry->missing = pieces_[tensor];
      entry->pieces.resize(static_cast<std::size_t>(pieces_[tensor]));
      entry->stride = std::max<std::int64_t>(1, (elements + kSamples - 1) / kSamples);
      entry->samples.resize(
          static_cast<std::size_t>((elements + entry->stride - 1) / entry->stride));
    }
    return *entry;
  }

  void take(const Piece& piece, std::span<const float> values) {
    Gathered& entry = gathered(piece.tensor);
    entry.pieces[static_cast<std::size_t>(piece.number)] =
        kernels::power_sums(values.data(), piece.count);
    take_samples(entry, piece, values);
    std::unique_ptr<Gathered> complete;
    {
      const std::lock_guard lock(mutex_);
      if (--entry.missing == 0) complete = std::move(gathered_[piece.tensor]);
    }
    if (complete != nullptr) {
      stats_[piece.tensor] = finish(checkpoint_.tensors()[piece.tensor], *complete);
    }
  }

  const Checkpoint& checkpoint_;
  const StatsOptions& options_;
  std::vector<TensorStats> stats_;
  std::vector<std::int64_t> pieces_;  // of each tensor
  std::mutex mutex_;
  std::vector<std::unique_ptr<Gathered>> gathered_;
};

}  // namespace

Result<std::vector<TensorStats>> tensor_stats(const Checkpoint& checkpoint,
                                              std::span<const std::size_t> tensors,
                                              const StatsOptions& options) {
  Gatherer gatherer(checkpoint, options);
  PITH_OK(gatherer.first_pass(tensors));
  PITH_OK(gatherer.second_pass(tensors));
  std::vector<TensorStats> stats;
  for (const std::size_t tensor : tensors) stats.push_back(gatherer.stats(tensor));
  return stats;
}

}  // namespace pith

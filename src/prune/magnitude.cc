#include "pith/prune/magnitude.h"

#include <bit>
#include <cassert>

#include "src/kernels/select.h"
#include "src/prune/threshold.h"

namespace pith {

struct MagnitudeSelector::Impl {
  std::int64_t count;
  kernels::MagnitudeHistogram histogram;
};

MagnitudeSelector::MagnitudeSelector(std::int64_t count)
    : impl_(new Impl{count, kernels::MagnitudeHistogram(count - 1)}) {
  assert(count > 0);
}
MagnitudeSelector::~MagnitudeSelector() = default;
MagnitudeSelector::MagnitudeSelector(MagnitudeSelector&&) noexcept = default;
MagnitudeSelector& MagnitudeSelector::operator=(MagnitudeSelector&&) noexcept = default;

void MagnitudeSelector::feed(std::span<const float> values) {
  impl_->histogram.add(values.data(), static_cast<std::int64_t>(values.size()));
}

bool MagnitudeSelector::next_pass() { return impl_->histogram.next_pass(); }

float MagnitudeSelector::threshold() const {
  return std::bit_cast<float>(impl_->histogram.result().bits);
}

std::int64_t MagnitudeSelector::ties() const {
  return Threshold::first(impl_->count, impl_->histogram.result()).ties;
}

bool MagnitudeSelector::has_nan() const { return impl_->histogram.has_nan(); }

void ThresholdPruner::apply(std::span<float> values, std::span<std::byte> mask) {
  assert(mask.empty() || mask.size() == (values.size() + 7) / 8);
  Threshold threshold{std::bit_cast<std::uint32_t>(threshold_), ties_, kAllTies};
  const Applied applied = apply_threshold(
      values, static_cast<std::int64_t>(values.size()), values.data(),
      mask.empty() ? nullptr : reinterpret_cast<std::uint8_t*>(mask.data()), threshold);
  ties_ = threshold.ties;
  pruned_ += applied.pruned;
  nonzero_ += applied.nonzero;
}

}  // namespace pith

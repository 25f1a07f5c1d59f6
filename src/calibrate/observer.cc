#include "pith/calibrate/observer.h"

#include <fmt/format.h>

namespace pith {

Status Observer::record(std::string_view layer, std::span<const float> values,
                        std::int64_t cols) {
  if (cols < 0) {
    return Status::invalid_argument(
        fmt::format("layer '{}': columns are {}, expected 0 or more", layer, cols));
  }
  if (values.empty()) return {};
  const auto where = [&] { return fmt::format("layer '{}'", layer); };
  const auto add = [&](LayerStats& stats) -> Status {
    if (stats.columns.cols() != cols) {
      return Status::invalid_argument(fmt::format(
          "{} columns, expected {} as recorded before", cols, stats.columns.cols()));
    }
    // The one that checks most goes first: what it took, the other takes too.
    if (cols > 0) PITH_OK(stats.columns.add(values, policy_));
    return stats.values.add(values, policy_);
  };
  const auto found = layers_.find(layer);
  if (found != layers_.end()) {
    const Status status = add(found->second);
    return status.ok() ? status : status.with_context(where());
  }
  LayerStats fresh;
  fresh.columns = ColumnStats(cols);
  if (const Status status = add(fresh); !status.ok()) return status.with_context(where());
  layers_.emplace(layer, std::move(fresh));
  return {};
}

Status Observer::merge(const Observer& other) {
  if (&other == this) {
    Observer copy = other;  // which merging would change under its own feet
    std::swap(layers_, copy.layers_);
    return merge(copy);
  }
  for (const auto& [name, layer] : other.layers_) {
    const LayerStats* mine = find(name);
    if (mine != nullptr && mine->columns.cols() != layer.columns.cols()) {
      return Status::invalid_argument(
          fmt::format("layer '{}': {} columns cannot be merged with {}", name,
                      layer.columns.cols(), mine->columns.cols()));
    }
  }
  for (const auto& [name, layer] : other.layers_) {
    const auto [mine, is_new] = layers_.try_emplace(name, layer);
    if (is_new) continue;
    mine->second.values.merge(layer.values);
    PITH_OK(mine->second.columns.merge(layer.columns));
  }
  return {};
}

Status Observer::add(std::string_view layer, const LayerStats& stats) {
  Observer other(policy_);
  other.layers_.emplace(layer, stats);
  return merge(other);
}

const LayerStats* Observer::input_of(std::string_view weight) const {
  if (const LayerStats* layer = find(weight)) return layer;
  constexpr std::string_view kSuffix = ".weight";
  if (!weight.ends_with(kSuffix)) return nullptr;
  return find(weight.substr(0, weight.size() - kSuffix.size()));
}

const LayerStats* Observer::find(std::string_view layer) const {
  const auto found = layers_.find(layer);
  return found == layers_.end() ? nullptr : &found->second;
}

}  // namespace pith

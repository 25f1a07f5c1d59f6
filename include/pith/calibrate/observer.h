// Statistics of the activations of many layers, by name.
//
//   pith::Observer observer;
//   PITH_OK(observer.record("blk.0.ffn_up", activations, 4096));   // rows of 4096
//   PITH_OK(observer.merge(from_another_machine));
//   const pith::LayerStats* layer = observer.find("blk.0.ffn_up");
//
// Like the statistics it holds, an observer is the same for every batching and order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "pith/base/result.h"
#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"

namespace pith {

struct LayerStats {
  ValueStats values;
  ColumnStats columns;  ///< without columns if the layer was recorded without

  friend bool operator==(const LayerStats&, const LayerStats&) = default;
};

class Observer {
 public:
  using Layers = std::map<std::string, LayerStats, std::less<>>;

  explicit Observer(NonFinite policy = NonFinite::kError) : policy_(policy) {}

  /// Adds rows of `cols` values to a layer, which is made if it is new. With cols = 0
  /// only the statistics of all values are kept. An empty batch makes no layer.
  ///
  /// kInvalidArgument if the values are no whole rows, or the layer is known with another
  /// number of columns; kNotFinite by the policy. Nothing changes then.
  Status record(std::string_view layer, std::span<const float> values,
                std::int64_t cols = 0);

  /// Adds statistics of a layer that were taken elsewhere. kInvalidArgument if the layer is
  /// known with another number of columns; nothing changes then.
  Status add(std::string_view layer, const LayerStats& stats);
  /// kInvalidArgument if a layer has another number of columns there; nothing changes
  /// then.
  Status merge(const Observer& other);

  /// The layer of that name, or nullptr.
  [[nodiscard]] const LayerStats* find(std::string_view layer) const;
  /// The statistics of the input of the weight of that name: those of the layer of that
  /// name, or of the name without ".weight" at its end. nullptr if there are none.
  [[nodiscard]] const LayerStats* input_of(std::string_view weight) const;
  /// Ascending by name.
  [[nodiscard]] const Layers& layers() const { return layers_; }

 private:
  NonFinite policy_;
  Layers layers_;
};

}  // namespace pith

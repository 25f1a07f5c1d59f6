#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/calibrate/observer.h"
#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"
#include "pith/calibrate/stats_file.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<ScaleMethod> kMethods[] = {{"min_max", ScaleMethod::kMinMax},
                                          {"percentile", ScaleMethod::kPercentile},
                                          {"aciq", ScaleMethod::kAciq},
                                          {"mse", ScaleMethod::kMse}};

using Values = Guarded<ValueStats>;
using Columns = Guarded<ColumnStats>;
using Layers = Guarded<Observer>;

template <auto Figure>
auto figure() {
  return
      [](Values& self) { return self.with([](ValueStats& s) { return (s.*Figure)(); }); };
}

template <typename T>
std::unique_ptr<Guarded<T>> guarded(T object) {
  return std::make_unique<Guarded<T>>(std::move(object));
}

// Two objects, each with a lock of its own: the other one is copied first.
template <typename T>
T snapshot(Guarded<T>& other) {
  return other.with([](T& s) { return s; });
}

void add_values(nb::module_& m) {
  nb::class_<Values>(m, "ValueStats",
                     "Statistics of values that come in batches, the same bits for every "
                     "batching and order.\n\n"
                     ">>> stats = pith.ValueStats()\n"
                     ">>> stats.add([1.0, -4.0, 2.0])\n"
                     ">>> stats.count, stats.absmax, stats.percentile(0.5)\n"
                     "(3, 4.0, 2.0)")
      .def(nb::init<>())
      .def(
          "add",
          [](Values& self, nb::handle x, const std::string& non_finite) {
            const NonFinite policy = from_word(kNonFinite, "non_finite", non_finite);
            const Floats values(x, "x");
            check(self.with([&](ValueStats& s) { return s.add(values.span(), policy); }));
          },
          arg("x"), arg("non_finite") = "error",
          "NotFinite (with the index, and nothing changes) unless non_finite='count'.")
      .def(
          "merge",
          [](Values& self, Values& other) {
            const ValueStats copy = snapshot(other);
            self.with([&](ValueStats& s) { s.merge(copy); });
          },
          arg("other"), "As if the values of the other had been added here.")
      .def_prop_ro("count", figure<&ValueStats::count>(), "finite values")
      .def_prop_ro("zeros", figure<&ValueStats::zeros>())
      .def_prop_ro("nonfinite", figure<&ValueStats::nonfinite>())
      .def_prop_ro("min", figure<&ValueStats::min>())
      .def_prop_ro("max", figure<&ValueStats::max>())
      .def_prop_ro("absmax", figure<&ValueStats::absmax>())
      .def_prop_ro("mean", figure<&ValueStats::mean>())
      .def_prop_ro("mean_abs", figure<&ValueStats::mean_abs>())
      .def_prop_ro("rms", figure<&ValueStats::rms>())
      .def_prop_ro("std_dev", figure<&ValueStats::std_dev>(), "of the population")
      .def(
          "percentile",
          [](Values& self, double p) {
            return value(self.with([&](ValueStats& s) { return s.percentile(p); }));
          },
          arg("p"),
          "The magnitude that at least the fraction p of the values do not exceed.")
      .def(
          "percentile_256",
          [](Values& self, double p) {
            return value(self.with([&](ValueStats& s) { return s.percentile_256(p); }));
          },
          arg("p"))
      .def_prop_ro("percentiles_are_exact", figure<&ValueStats::percentiles_are_exact>())
      .def(
          "__eq__",
          [](Values& a, nb::handle b) {
            Values* other = nullptr;
            if (!nb::try_cast(b, other) || other == nullptr) return false;
            return snapshot(a) == snapshot(*other);
          },
          arg("other").none())
      .def("__repr__", [](Values& self) {
        return "ValueStats(count=" + std::to_string(self.object.count()) + ")";
      });
  nb::class_<Columns>(
      m, "ColumnStats",
      "Largest magnitude and sum of squares of every column: what SmoothQuant, "
      "Wanda and AWQ ask of activations.\n\n"
      ">>> stats = pith.ColumnStats(2)\n"
      ">>> stats.add([[1.0, -3.0], [2.0, 0.5]])\n"
      ">>> stats.absmax, stats.sum_squares\n"
      "(array([2., 3.], dtype=float32), array([5.  , 9.25]))")
      .def(
          "__init__",
          [](Columns* self, std::int64_t cols) {
            if (cols < 0) {
              raise(Status::invalid_argument("cols: " + std::to_string(cols) +
                                             " was given; 0 or more was expected"));
            }
            new (self) Columns(cols);
          },
          arg("cols"))
      .def(
          "add",
          [](Columns& self, nb::handle x, const std::string& non_finite) {
            const NonFinite policy = from_word(kNonFinite, "non_finite", non_finite);
            const Floats values(x, "x");
            check(
                self.with([&](ColumnStats& s) { return s.add(values.span(), policy); }));
          },
          arg("x"), arg("non_finite") = "error", "Adds whole rows.")
      .def(
          "merge",
          [](Columns& self, Columns& other) {
            const ColumnStats copy = snapshot(other);
            check(self.with([&](ColumnStats& s) { return s.merge(copy); }));
          },
          arg("other"))
      .def_prop_ro("cols", [](Columns& self) { return self.object.cols(); })
      .def_prop_ro("rows", [](Columns& self) { return snapshot(self).rows(); })
      .def_prop_ro("nonfinite", [](Columns& self) { return snapshot(self).nonfinite(); })
      .def_prop_ro(
          "absmax", [](Columns& self) { return array_of(snapshot(self).absmax()); },
          nb::sig("def absmax(self) -> numpy.ndarray"))
      .def_prop_ro(
          "sum_squares",
          [](Columns& self) {
            const auto sums = self.with([](ColumnStats& s) { return s.sum_squares(); });
            return array_of<double>(sums);
          },
          nb::sig("def sum_squares(self) -> numpy.ndarray"))
      .def(
          "__eq__",
          [](Columns& a, nb::handle b) {
            Columns* other = nullptr;
            if (!nb::try_cast(b, other) || other == nullptr) return false;
            return snapshot(a) == snapshot(*other);
          },
          arg("other").none());
}

void add_observer(nb::module_& m) {
  nb::class_<Layers>(m, "Observer",
                     "Statistics of the activations of many layers, by name.\n\n"
                     ">>> observer = pith.Observer()\n"
                     ">>> observer.record('mlp.up', [[1.0, -2.0], [0.5, 4.0]])\n"
                     ">>> values, columns = observer['mlp.up']\n"
                     ">>> values.count, columns.absmax.tolist()\n"
                     "(4, [1.0, 4.0])")
      .def(
          "__init__",
          [](Layers* self, const std::string& non_finite) {
            new (self) Layers(from_word(kNonFinite, "non_finite", non_finite));
          },
          arg("non_finite") = "error")
      .def(
          "record",
          [](Layers& self, const std::string& layer, nb::handle x, bool columns) {
            const Floats values(x, "x");
            check(self.with([&](Observer& o) {
              return o.record(layer, values.span(), columns ? values.shape().cols() : 0);
            }));
          },
          arg("layer"), arg("x"), arg("columns") = true,
          "Adds rows (last axis) of activations to a layer.")
      .def(
          "merge",
          [](Layers& self, Layers& other) {
            const Observer copy = snapshot(other);
            check(self.with([&](Observer& o) { return o.merge(copy); }));
          },
          arg("other"))
      .def(
          "names",
          [](Layers& self) {
            return self.with([](Observer& o) {
              std::vector<std::string> names;
              for (const auto& [name, stats] : o.layers()) names.push_back(name);
              return names;
            });
          },
          "Layers in ascending order.")
      .def(
          "__getitem__",
          [](Layers& self, const std::string& name) {
            const auto found = self.with([&](Observer& o) {
              const LayerStats* stats = o.find(name);
              return stats == nullptr ? std::unique_ptr<LayerStats>()
                                      : std::make_unique<LayerStats>(*stats);
            });
            if (found == nullptr) {
              raise(Status::not_found("layer '" + name + "' was not recorded"));
            }
            return nb::make_tuple(nb::cast(guarded(std::move(found->values))),
                                  nb::cast(guarded(std::move(found->columns))));
          },
          nb::sig("def __getitem__(self, name: str) -> tuple[ValueStats, ColumnStats]"),
          "(ValueStats, ColumnStats) of a layer; NotFound if it was not recorded.")
      .def(
          "save",
          [](Layers& self, const std::filesystem::path& path, bool overwrite) {
            check(self.with([&](Observer& o) {
              return write_statistics(o, path, {.overwrite = overwrite});
            }));
          },
          arg("path"), nb::kw_only(), arg("overwrite") = false,
          "Writes a file of statistics, as `pith calibrate` does.")
      .def_static(
          "load",
          [](const std::filesystem::path& path) {
            return guarded(unlocked([&] { return read_statistics(path); }));
          },
          arg("path"), "Reads such a file.")
      .def(
          "record_file",
          [](Layers& self, const std::filesystem::path& path, const std::string& layer) {
            return value(self.with([&](Observer& o) {
                     return record_activations(o, path, layer);
                   }))
                .rows;
          },
          arg("path"), arg("layer") = "",
          "Adds the activations of a file, piece by piece; returns the number of rows.")
      .def("__contains__",
           [](Layers& self, const std::string& name) {
             return self.with([&](Observer& o) { return o.find(name) != nullptr; });
           })
      .def("__len__", [](Layers& self) {
        return self.with([](Observer& o) { return o.layers().size(); });
      });
}

}  // namespace

void add_calibrate(nb::module_& m) {
  add_values(m);
  add_observer(m);
  m.def(
      "calibrated_scale",
      [](Values& stats, const std::string& method, double percentile, int bits,
         bool reference) {
        const ScaleOptions options{.method = from_word(kMethods, "method", method),
                                   .percentile = percentile,
                                   .bits = bits,
                                   .reference = reference};
        return value(
            stats.with([&](ValueStats& s) { return calibrated_scale(s, options); }));
      },
      arg("stats"), arg("method") = "percentile", nb::kw_only(),
      arg("percentile") = 0.9999, arg("bits") = 8, arg("reference") = false,
      "The scale of an activation by 'min_max', 'percentile', 'aciq' or 'mse'.");
  m.def(
      "suggested_scale",
      [](Values& stats) {
        return stats.with([](ValueStats& s) { return suggested_scale(s); });
      },
      arg("stats"),
      "The 99th percentile / 127, or the largest magnitude / 127 where that is 0.");
  m.def(
      "check_scale",
      [](float scale, Values& stats) {
        return stats.with([&](ValueStats& s) { return check_scale(scale, s); });
      },
      arg("scale"), arg("stats"),
      "What is wrong with an int8 scale; nothing if it is good.");
  nb::class_<ClippingCost>(m, "ClippingCost",
                           "What a static int8 scale costs the values seen.")
      .def_ro("clipped", &ClippingCost::clipped, "share of the values that saturate")
      .def_ro("clip_error", &ClippingCost::clip_error, "sum of their squared errors")
      .def_ro("round_error", &ClippingCost::round_error, "that of all others")
      .def_ro("relative_error", &ClippingCost::relative_error,
              "of the energy of the values, as a root");
  m.def(
      "clipping_cost",
      [](float scale, Values& stats) {
        return stats.with([&](ValueStats& s) { return clipping_cost(scale, s); });
      },
      arg("scale"), arg("stats"), "What values beyond 127 steps cost, and rounding.");
  m.def(
      "check_clipping",
      [](float scale, Values& stats) {
        return stats.with([&](ValueStats& s) { return check_clipping(scale, s); });
      },
      arg("scale"), arg("stats"),
      "A warning if saturation costs more than rounding; nothing if the scale is good.");
  m.def(
      "weight_range",
      [](nb::handle x) {
        const Floats values(x, "x");
        const WeightRange r = unlocked([&] { return weight_range(values.span()); });
        return nb::make_tuple(r.min, r.max, r.scale);
      },
      arg("x"), nb::sig("def weight_range(x: object) -> tuple[float, float, float]"),
      "(smallest, largest, scale of int8 that holds both).");
}

}  // namespace pith::python

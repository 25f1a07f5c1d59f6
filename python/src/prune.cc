#include "pith/prune/prune.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/prune/clip.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<Importance> kImportances[] = {{"l1", Importance::kL1},
                                             {"l2", Importance::kL2},
                                             {"taylor_proxy", Importance::kTaylorProxy},
                                             {"random", Importance::kRandom},
                                             {"wanda", Importance::kWanda}};
constexpr Word<Granularity> kGranularities[] = {{"element", Granularity::kElement},
                                                {"row", Granularity::kRow},
                                                {"column", Granularity::kColumn},
                                                {"block", Granularity::kBlock},
                                                {"n_m", Granularity::kNM}};
constexpr Word<PruneScope> kScopes[] = {{"tensor", PruneScope::kTensor},
                                        {"row", PruneScope::kRow},
                                        {"global", PruneScope::kGlobal}};

// A mask that remembers the shape it is of.
struct Mask {
  BitMask bits;
  Shape shape;
};

Array to_numpy(const Mask& mask) {
  const Output<bool> out(mask.shape);
  const std::span<bool> kept = out.span();
  const nb::gil_scoped_release release;
  const std::int64_t cols = mask.bits.cols();
  std::size_t i = 0;
  for (std::int64_t r = 0; r < mask.bits.rows() && cols > 0; ++r) {
    const std::span<const std::byte> row = mask.bits.row(r);
    for (std::int64_t c = 0; c < cols; ++c) {
      kept[i++] =
          (std::to_integer<unsigned>(row[static_cast<std::size_t>(c / 8)]) >> (c % 8) &
           1u) != 0;
    }
  }
  return out.array();
}

Mask from_numpy(nb::handle array) {
  const Input input(array, "mask");
  const std::span<const bool> kept = input.span<bool>(DType::kBool);
  const nb::gil_scoped_release release;
  Mask mask{BitMask(input.shape(), false), input.shape()};
  const std::int64_t cols = mask.bits.cols();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) {
      const auto index = static_cast<std::int64_t>(i);
      mask.bits.set(index / cols, index % cols, true);
    }
  }
  return mask;
}

void add_mask(nb::module_& m) {
  nb::class_<Mask>(m, "BitMask",
                   "Which weights are kept, one bit each, as sparse files store it.\n\n"
                   ">>> import numpy as np\n"
                   ">>> mask = pith.BitMask(np.array([[True, False, True]]))\n"
                   ">>> mask.count, mask.bytes\n"
                   "(2, b'\\x05')\n"
                   ">>> np.asarray(mask)\n"
                   "array([[ True, False,  True]])")
      .def(
          "__init__",
          [](Mask* self, nb::handle kept) { new (self) Mask(from_numpy(kept)); },
          arg("kept"), "From an array of truth values.")
      .def_static(
          "from_bytes",
          [](nb::handle shape, nb::handle bytes) {
            const Shape extents = to_shape(shape);
            const Input input(bytes, "bytes");
            return Mask{value(BitMask::from_bytes(extents, input.bytes())), extents};
          },
          arg("shape"), arg("bytes"),
          "InvalidArgument if the number of bytes is wrong or an unused bit is set.")
      .def_prop_ro("shape", [](const Mask& mask) { return to_tuple(mask.shape); })
      .def_prop_ro(
          "count", [](const Mask& mask) { return mask.bits.count(); },
          "how many are kept")
      .def_prop_ro("elements", [](const Mask& mask) { return mask.shape.elements(); })
      .def_prop_ro(
          "bytes",
          [](const Mask& mask) {
            return nb::bytes(mask.bits.bytes().data(), mask.bits.bytes().size());
          },
          "as stored: each row begins a byte, the lowest bit first")
      .def("to_numpy", &to_numpy, nb::sig("def to_numpy(self) -> numpy.ndarray"))
      .def(
          "__array__",
          [](const Mask& mask, nb::handle dtype, nb::handle) {
            nb::object array = to_numpy(mask);
            return dtype.is_none() ? array : array.attr("astype")(dtype);
          },
          arg("dtype").none() = nb::none(), arg("copy").none() = nb::none(),
          nb::sig("def __array__(self, dtype: object = None, copy: object = None) -> "
                  "numpy.ndarray"))
      .def(
          "__eq__",
          [](const Mask& a, nb::handle b) {
            Mask* other = nullptr;
            return nb::try_cast(b, other) && other != nullptr &&
                   a.shape == other->shape && a.bits == other->bits;
          },
          arg("other").none())
      .def("__repr__", [](const Mask& mask) {
        return "BitMask(shape=" + mask.shape.to_string() + ", " +
               std::to_string(mask.bits.count()) + " kept)";
      });
  m.def(
      "apply_mask",
      [](nb::handle x, const Mask& mask, bool in_place) {
        const InOut data(x, "x", in_place);
        unlocked([&] { return apply_mask(data.span(), mask.bits); });
        return data.array();
      },
      arg("x"), arg("mask"), nb::kw_only(), arg("in_place") = false,
      "Sets what is not kept to 0.");
}

// What Python gets: the values too.
struct PrunedArray {
  Array values;
  Mask mask;
  Pruned pruned;
};

PruneOptions prune_options(float sparsity, const std::string& importance,
                           const std::string& granularity, const std::string& scope,
                           std::int64_t min_nonzero, std::uint64_t seed, std::int64_t n,
                           std::int64_t m, std::int64_t block_rows,
                           std::int64_t block_cols) {
  return {.sparsity = sparsity,
          .importance = from_word(kImportances, "importance", importance),
          .granularity = from_word(kGranularities, "granularity", granularity),
          .scope = from_word(kScopes, "scope", scope),
          .min_nonzero = min_nonzero,
          .seed = seed,
          .n = n,
          .m = m,
          .block_rows = block_rows,
          .block_cols = block_cols};
}

PrunedArray prune_array(nb::handle x, float sparsity, const std::string& importance,
                        const std::string& granularity, const std::string& scope,
                        std::int64_t min_nonzero, std::uint64_t seed, std::int64_t n,
                        std::int64_t m, std::int64_t block_rows, std::int64_t block_cols,
                        nb::handle column_norms, bool in_place, const std::string& name) {
  const PruneOptions options =
      prune_options(sparsity, importance, granularity, scope, min_nonzero, seed, n, m,
                    block_rows, block_cols);
  const InOut data(x, "x", in_place);
  std::optional<Floats> norms;
  if (!column_norms.is_none()) norms.emplace(column_norms, "column_norms");
  const PruneTensor tensor{name, data.span(), data.shape(),
                           norms ? norms->span() : std::span<const float>{}};
  Pruned done = unlocked([&] { return prune(tensor, options); });
  Mask mask{std::move(done.mask), data.shape()};
  return {data.array(), std::move(mask), std::move(done)};
}

nb::dict prune_all(const nb::dict& tensors, float sparsity, const std::string& importance,
                   const std::string& granularity, const std::string& scope,
                   std::int64_t min_nonzero, std::uint64_t seed, std::int64_t n,
                   std::int64_t m, std::int64_t block_rows, std::int64_t block_cols,
                   bool in_place) {
  const PruneOptions options =
      prune_options(sparsity, importance, granularity, scope, min_nonzero, seed, n, m,
                    block_rows, block_cols);
  std::vector<std::string> names;
  std::vector<std::unique_ptr<InOut>> data;
  for (const auto& [name, array] : tensors) {
    names.push_back(nb::cast<std::string>(name));
    data.push_back(std::make_unique<InOut>(array, names.back().c_str(), in_place));
  }
  std::vector<PruneTensor> list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list.push_back({names[i], data[i]->span(), data[i]->shape()});
  }
  std::vector<Pruned> done = unlocked([&] { return prune_model(list, options); });
  nb::dict out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Mask mask{std::move(done[i].mask), data[i]->shape()};
    out[nb::str(names[i].c_str())] =
        nb::cast(PrunedArray{data[i]->array(), std::move(mask), std::move(done[i])});
  }
  return out;
}

void add_pruning(nb::module_& m) {
  nb::class_<PrunedArray>(m, "Pruned", "What pruning gave.")
      .def_ro("values", &PrunedArray::values,
              "float32: the copy, or the array that was given")
      .def_ro("mask", &PrunedArray::mask, "BitMask of what was kept")
      .def_prop_ro(
          "pruned", [](const PrunedArray& p) { return p.pruned.pruned; },
          "elements the mask does not keep")
      .def_prop_ro("nonzero", [](const PrunedArray& p) { return p.pruned.after.nonzero; })
      .def_prop_ro(
          "sparsity", [](const PrunedArray& p) { return p.pruned.sparsity(); },
          "share of zeros among the values now")
      .def_prop_ro("skipped", [](const PrunedArray& p) { return p.pruned.skipped; })
      .def_prop_ro("reason", [](const PrunedArray& p) { return p.pruned.reason; })
      .def("__repr__", [](const PrunedArray& p) {
        return "Pruned(shape=" + p.mask.shape.to_string() + ", " +
               std::to_string(p.pruned.pruned) + " pruned, " +
               std::to_string(p.pruned.after.nonzero) + " nonzero)";
      });
  m.def(
      "prune", &prune_array, arg("x"), arg("sparsity") = 0.5f, nb::kw_only(),
      arg("importance") = "l1", arg("granularity") = "element", arg("scope") = "tensor",
      arg("min_nonzero") = 1, arg("seed") = 0, arg("n") = 2, arg("m") = 4,
      arg("block_rows") = 1, arg("block_cols") = 16,
      arg("column_norms").none() = nb::none(), arg("in_place") = false, arg("name") = "",
      "Zeroes the weights that matter least; exactly the asked number, ties by index.\n\n"
      ">>> p = pith.prune([[0.1, -3.0, 2.0, -0.2]], 0.5)\n"
      ">>> p.values, p.sparsity\n"
      "(array([[ 0., -3.,  2.,  0.]], dtype=float32), 0.5)\n"
      ">>> pith.prune([[1.0, 2.0, 3.0, 4.0]], granularity='n_m', n=1, m=2).values\n"
      "array([[0., 2., 0., 4.]], dtype=float32)\n\n"
      "importance: 'l1', 'l2', 'taylor_proxy', 'random' (seed), 'wanda' (column_norms); "
      "granularity: 'element', 'row', 'column', 'block' (block_rows, block_cols), 'n_m' "
      "(n of "
      "each m are kept); scope: 'tensor' or 'row'. A copy is changed unless in_place.");
  m.def("prune_model", &prune_all, arg("tensors"), arg("sparsity") = 0.5f, nb::kw_only(),
        arg("importance") = "l1", arg("granularity") = "element", arg("scope") = "tensor",
        arg("min_nonzero") = 1, arg("seed") = 0, arg("n") = 2, arg("m") = 4,
        arg("block_rows") = 1, arg("block_cols") = 16, arg("in_place") = false,
        nb::sig("def prune_model(tensors: dict[str, object], sparsity: float = 0.5, *, "
                "importance: "
                "str = 'l1', granularity: str = 'element', scope: str = 'tensor', "
                "min_nonzero: int "
                "= 1, seed: int = 0, n: int = 2, m: int = 4, block_rows: int = 1, "
                "block_cols: int "
                "= 16, in_place: bool = False) -> dict[str, Pruned]"),
        "Prunes arrays by name, one by one, or all together with scope='global'.");
  m.def(
      "importance_scores",
      [](nb::handle x, const std::string& importance, std::uint64_t seed,
         nb::handle norms) {
        const Floats values(x, "x");
        std::optional<Floats> columns;
        if (!norms.is_none()) columns.emplace(norms, "column_norms");
        const ImportanceOptions options{
            .importance = from_word(kImportances, "importance", importance),
            .seed = seed,
            .column_norms = columns ? columns->span() : std::span<const float>{}};
        const auto scores =
            unlocked([&] { return importance_scores(values.span(), options, "x"); });
        const Output<float> out(values.shape());
        std::copy(scores.begin(), scores.end(), out.span().begin());
        return out.array();
      },
      arg("x"), arg("importance") = "l1", nb::kw_only(), arg("seed") = 0,
      arg("column_norms").none() = nb::none(), "The score of every value.");
  m.def(
      "count_nonzero",
      [](nb::handle x) {
        const Floats values(x, "x");
        const nb::gil_scoped_release release;
        return count_sparsity(values.span()).nonzero;
      },
      arg("x"), "How many values are not 0.");
}

template <typename Done>
struct ClippedArray {
  Array values;
  Done done;
};

void add_clip(nb::module_& m) {
  using ClippedValues = ClippedArray<Clipped>;
  using LimitedValues = ClippedArray<Limited>;
  nb::class_<ClippedValues>(m, "Clipped", "What clip() gave.")
      .def_ro("values", &ClippedValues::values)
      .def_prop_ro("threshold", [](const ClippedValues& c) { return c.done.threshold; })
      .def_prop_ro("zeroed", [](const ClippedValues& c) { return c.done.zeroed; })
      .def_prop_ro("cleared", [](const ClippedValues& c) { return c.done.cleared; })
      .def_prop_ro("sparsity",
                   [](const ClippedValues& c) { return c.done.after.sparsity(); });
  nb::class_<LimitedValues>(m, "Limited", "What limit() gave.")
      .def_ro("values", &LimitedValues::values)
      .def_prop_ro("threshold", [](const LimitedValues& c) { return c.done.threshold; })
      .def_prop_ro("limited", [](const LimitedValues& c) { return c.done.limited; });
  m.def(
      "clip",
      [](nb::handle x, float percentile, bool in_place, const std::string& name) {
        const InOut data(x, "x", in_place);
        const Clipped done =
            unlocked([&] { return clip(data.span(), percentile, name); });
        return ClippedValues{data.array(), done};
      },
      arg("x"), arg("percentile"), nb::kw_only(), arg("in_place") = false,
      arg("name") = "",
      "Zeroes the smallest magnitudes up to a percentile in (0, 1].\n\n"
      ">>> pith.clip([3.0, -1.0, 2.0, 4.0], 0.5).values\n"
      "array([3., 0., 0., 4.], dtype=float32)");
  m.def(
      "limit",
      [](nb::handle x, float percentile, bool in_place, const std::string& name) {
        const InOut data(x, "x", in_place);
        const Limited done =
            unlocked([&] { return limit(data.span(), percentile, name); });
        return LimitedValues{data.array(), done};
      },
      arg("x"), arg("percentile"), nb::kw_only(), arg("in_place") = false,
      arg("name") = "",
      "Draws magnitudes above a percentile back to it.\n\n"
      ">>> pith.limit([3.0, -1.0, 2.0, -40.0], 0.75).values\n"
      "array([ 3., -1.,  2., -3.], dtype=float32)");
}

}  // namespace

void add_prune(nb::module_& m) {
  add_mask(m);
  add_pruning(m);
  add_clip(m);
}

}  // namespace pith::python

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "module.h"
#include "pith/io/checkpoint.h"
#include "pith/io/convert_checkpoint.h"
#include "pith/io/tensor_stats.h"
#include "pith/io/writer.h"
#include "pith/quantize/dense.h"
#include "work.h"

namespace pith::python {

using nb::arg;

namespace {

struct File {
  std::shared_ptr<const Checkpoint> checkpoint;
};

// One tensor of a file, read when it is asked for.
struct Tensor {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::size_t index;

  [[nodiscard]] const TensorInfo& info() const { return checkpoint->tensors()[index]; }
};

nb::object read_rows(const Tensor& t, std::int64_t first, std::int64_t rows,
                     const Shape& shape) {
  const Output<float> out(shape);
  unlocked([&] { return t.checkpoint->read_rows(t.index, first, rows, out.span()); });
  return out.array();
}

nb::object read_all(const Tensor& t) {
  return read_rows(t, 0, t.info().shape.rows(), t.info().shape);
}

// The whole tensor in its own type.
nb::object read_raw(const Tensor& t) {
  const TensorInfo& info = t.info();
  if (!info.encoding.dtype || bits_of(*info.encoding.dtype) < 8) {
    raise(Status::unsupported(
        "tensor '" + info.name + "': " + std::string(info.encoding.name) +
        " is no type of numpy; read() gives float32, read_bytes() the bytes"));
  }
  const NewArray out(*info.encoding.dtype, info.shape);
  unlocked([&] { return t.checkpoint->read_bytes(t.index, 0, out.bytes()); });
  return out.array();
}

// t[i] and t[a:b] along the first axis; more axes, steps and negative places as numpy has
// them, on what was read.
nb::object read_slice(const Tensor& t, nb::handle key) {
  const Shape& shape = t.info().shape;
  nb::object first_key = nb::borrow(key);
  nb::tuple rest = nb::make_tuple();
  if (nb::isinstance<nb::tuple>(key)) {
    const nb::tuple keys = nb::borrow<nb::tuple>(key);
    if (keys.size() == 0) return read_all(t);
    first_key = nb::borrow(keys[0]);
    rest = nb::borrow<nb::tuple>(key[nb::slice(nb::int_(1), nb::none(), nb::none())]);
  }
  const bool is_slice = nb::isinstance<nb::slice>(first_key);
  if (shape.rank() < 2 || (!is_slice && PyIndex_Check(first_key.ptr()) == 0)) {
    return nb::borrow(read_all(t)[nb::borrow(key)]);
  }
  const std::int64_t extent = shape[0];
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  if (is_slice) {
    const auto [start, stop, by, length] =
        nb::borrow<nb::slice>(first_key).compute(static_cast<std::size_t>(extent));
    step = by;
    begin = step > 0 ? start : start + step * (static_cast<std::int64_t>(length) - 1);
    count = length == 0
                ? 0
                : (step > 0 ? step : -step) * (static_cast<std::int64_t>(length) - 1) + 1;
  } else {
    begin = nb::cast<std::int64_t>(nb::steal(PyNumber_Index(first_key.ptr())));
    if (begin < 0) begin += extent;
    if (begin < 0 || begin >= extent) {
      throw nb::index_error(("row out of range of " + shape.to_string()).c_str());
    }
    count = 1;
  }
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents[0] = count;
  const Shape part = value(Shape::make(extents));
  const std::int64_t rows_each = extent == 0 ? 0 : shape.rows() / extent;
  nb::object out = read_rows(t, begin * rows_each, count * rows_each, part);
  if (!is_slice) {
    out = out[nb::int_(0)];
  } else if (step != 1) {
    out = out[nb::slice(nb::none(), nb::none(), nb::int_(step))];
  }
  if (rest.size() == 0) return out;
  if (!is_slice) return nb::borrow(out[rest]);
  return nb::borrow(
      out[nb::make_tuple(nb::slice(nb::none(), nb::none(), nb::none())) + rest]);
}

std::string dtype_name(const TensorInfo& info) {
  return info.encoding.dtype ? std::string(to_string(*info.encoding.dtype))
                             : std::string(info.encoding.name);
}

void add_lazy_tensor(nb::module_& m) {
  nb::class_<Tensor>(
      m, "Tensor",
      "One tensor of a file; rows are read (and decoded) when they are asked for: "
      "t[10:20], t.read(), np.asarray(t).")
      .def_prop_ro("name", [](const Tensor& t) { return t.info().name; })
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return dtype_name(t.info()); },
          "'f32', 'bf16', 'q4_0', 'int8 row f32', ...: how it is stored")
      .def_prop_ro("shape", [](const Tensor& t) { return to_tuple(t.info().shape); })
      .def_prop_ro("ndim", [](const Tensor& t) { return t.info().shape.rank(); })
      .def_prop_ro("size", [](const Tensor& t) { return t.info().shape.elements(); })
      .def_prop_ro(
          "stored_bytes", [](const Tensor& t) { return t.info().bytes; }, "in the file")
      .def("read", &read_all, nb::sig("def read(self) -> numpy.ndarray"),
           "All values as float32.")
      .def("read_raw", &read_raw, nb::sig("def read_raw(self) -> numpy.ndarray"),
           "All values in their own type; Unsupported for blocks and codes.")
      .def(
          "read_bytes",
          [](const Tensor& t) {
            std::vector<std::byte> bytes(static_cast<std::size_t>(t.info().bytes));
            unlocked([&] { return t.checkpoint->read_bytes(t.index, 0, bytes); });
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes as they are stored.")
      .def("__getitem__", &read_slice, arg("key"),
           nb::sig("def __getitem__(self, key: object) -> numpy.ndarray"))
      .def(
          "__array__",
          [](const Tensor& t, nb::handle dtype, nb::handle) {
            nb::object array = read_all(t);
            return dtype.is_none() ? array : array.attr("astype")(dtype);
          },
          arg("dtype").none() = nb::none(), arg("copy").none() = nb::none(),
          nb::sig("def __array__(self, dtype: object | None = None, copy: object | None "
                  "= None) "
                  "-> numpy.ndarray"))
      .def("__len__",
           [](const Tensor& t) {
             if (t.info().shape.rank() == 0)
               throw nb::type_error("a scalar has no length");
             return t.info().shape[0];
           })
      .def("__repr__", [](const Tensor& t) {
        return "Tensor('" + t.info().name + "', " + dtype_name(t.info()) +
               ", shape=" + t.info().shape.to_string() + ")";
      });
}

Tensor find(const File& f, const std::string& name) {
  const auto index = f.checkpoint->find(name);
  if (!index) throw nb::key_error(name.c_str());
  return {f.checkpoint, *index};
}

File open_file(const std::filesystem::path& path, bool raw) {
  auto opened = unlocked([&] { return raw ? Checkpoint::open(path) : open_dense(path); });
  return {std::shared_ptr<const Checkpoint>(std::move(opened))};
}

void add_checkpoint(nb::module_& m) {
  nb::class_<File>(m, "Checkpoint",
                   "A file or folder of tensors: a mapping of names to Tensors.")
      .def_prop_ro("format",
                   [](const File& f) { return to_string(f.checkpoint->format()); })
      .def_prop_ro("files", [](const File& f) { return f.checkpoint->files(); })
      .def_prop_ro(
          "metadata",
          [](const File& f) {
            nb::dict all;
            for (const auto& [key, text] : f.checkpoint->metadata()) {
              all[nb::str(key.c_str(), key.size())] = nb::str(text.c_str(), text.size());
            }
            return all;
          },
          nb::sig("def metadata(self) -> dict[str, str]"))
      .def_prop_ro(
          "warnings", [](const File& f) { return f.checkpoint->warnings(); },
          "what is odd but accepted")
      .def(
          "keys",
          [](const File& f) {
            std::vector<std::string> names;
            for (const TensorInfo& t : f.checkpoint->tensors()) names.push_back(t.name);
            return names;
          },
          "Names in the order of the file.")
      .def("values",
           [](const File& f) {
             std::vector<Tensor> all;
             for (std::size_t i = 0; i < f.checkpoint->tensors().size(); ++i) {
               all.push_back({f.checkpoint, i});
             }
             return all;
           })
      .def(
          "items",
          [](const File& f) {
            nb::list all;
            for (std::size_t i = 0; i < f.checkpoint->tensors().size(); ++i) {
              all.append(nb::make_tuple(f.checkpoint->tensors()[i].name,
                                        nb::cast(Tensor{f.checkpoint, i})));
            }
            return all;
          },
          nb::sig("def items(self) -> list[tuple[str, Tensor]]"))
      .def(
          "get",
          [](const File& f, const std::string& name, nb::object missing) {
            const auto index = f.checkpoint->find(name);
            return index ? nb::cast(Tensor{f.checkpoint, *index}) : missing;
          },
          arg("name"), arg("default").none() = nb::none(),
          nb::sig("def get(self, name: str, default: object = None) -> Tensor | None"))
      .def("__getitem__", &find, arg("name"))
      .def(
          "__contains__",
          [](const File& f, const std::string& name) {
            return f.checkpoint->find(name).has_value();
          },
          arg("name"))
      .def(
          "__iter__",
          [](nb::handle self) {
            return nb::steal(PyObject_GetIter(nb::object(self.attr("keys")()).ptr()));
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__len__", [](const File& f) { return f.checkpoint->tensors().size(); })
      .def("__repr__", [](const File& f) {
        return "<pith.Checkpoint " + std::string(to_string(f.checkpoint->format())) +
               ", " + std::to_string(f.checkpoint->tensors().size()) + " tensors>";
      });
  m.def("open", &open_file, arg("path"), nb::kw_only(), arg("raw") = false,
        "Opens a safetensors, GGUF, npy, npz or PyTorch file, or a folder of Hugging "
        "Face.\n\n"
        ">>> import numpy as np, os, tempfile\n"
        ">>> path = os.path.join(tempfile.mkdtemp(), 'w.safetensors')\n"
        ">>> pith.save(path, {'w': np.arange(6, dtype=np.float16).reshape(2, 3)})\n"
        ">>> model = pith.open(path)\n"
        ">>> model['w'].dtype, model['w'].shape, model['w'][1:]\n"
        "('f16', (2, 3), array([[3., 4., 5.]], dtype=float32))\n\n"
        "Only headers are read. What is compressed is read as if it were not; with "
        "raw=True the "
        "codes and scales themselves are the tensors.");
}

nb::object stats_of(nb::handle source, nb::handle names, std::int64_t max_memory,
                    nb::handle progress) {
  const File file{to_checkpoint(source)};
  std::vector<std::size_t> numbers;
  if (names.is_none()) {
    for (std::size_t i = 0; i < file.checkpoint->tensors().size(); ++i)
      numbers.push_back(i);
  } else {
    for (nb::handle name : nb::borrow<nb::iterable>(names)) {
      numbers.push_back(find(file, nb::cast<std::string>(name)).index);
    }
  }
  const auto stats = run_work(progress, [&](CancelToken& stop,
                                            const ProgressFunction& report) {
    return tensor_stats(*file.checkpoint, numbers,
                        {.max_memory = max_memory, .cancel = &stop, .progress = report});
  });
  nb::dict all;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string& name = file.checkpoint->tensors()[numbers[i]].name;
    all[nb::str(name.c_str(), name.size())] = nb::cast(stats[i]);
  }
  return all;
}

void add_stats(nb::module_& m) {
  nb::class_<TensorStats>(m, "TensorStats", "What the numbers of a tensor look like.")
      .def_ro("elements", &TensorStats::elements)
      .def_ro("nan", &TensorStats::nan)
      .def_ro("infinite", &TensorStats::infinite)
      .def_ro("zeros", &TensorStats::zeros)
      .def_ro("min", &TensorStats::min)
      .def_ro("max", &TensorStats::max)
      .def_ro("absmax", &TensorStats::absmax)
      .def_ro("mean", &TensorStats::mean)
      .def_ro("deviation", &TensorStats::deviation)
      .def_ro("kurtosis", &TensorStats::kurtosis)
      .def_prop_ro(
          "histogram",
          [](const TensorStats& s) {
            return std::vector<std::int64_t>(s.histogram.begin(), s.histogram.end());
          },
          "sixteen equal bins over [-absmax, absmax], of a sample");
  m.def(
      "tensor_stats", &stats_of, arg("source"), arg("names").none() = nb::none(),
      nb::kw_only(), arg("max_memory") = std::int64_t{1} << 30,
      arg("progress").none() = nb::none(),
      nb::sig("def tensor_stats(source: object, names: collections.abc.Iterable[str] | "
              "None = "
              "None, *, max_memory: int = 1073741824, progress: object | None = None) -> "
              "dict[str, TensorStats]"),
      "Statistics of the tensors of a Checkpoint or path, by name, in one pass over the "
      "file.");
}

CheckpointLayout layout_of(const std::filesystem::path& path, const nb::dict& metadata,
                           const std::optional<std::string>& format) {
  CheckpointLayout layout;
  std::string ending = path.extension().string();
  if (!ending.empty()) ending.erase(0, 1);
  layout.format = from_word(kFormats, "format", format.value_or(ending));
  for (const auto& [key, text] : metadata) {
    const auto name = nb::cast<std::string>(key);
    const auto content = nb::cast<std::string>(text);
    if (layout.format == Format::kGguf) {
      layout.gguf_keys.push_back(GgufKey::string(name, content));
    } else {
      layout.metadata.emplace_back(name, content);
    }
  }
  return layout;
}

void save(const std::filesystem::path& path, const nb::dict& tensors,
          const nb::dict& metadata, const std::optional<std::string>& format,
          bool overwrite) {
  CheckpointLayout layout = layout_of(path, metadata, format);
  std::vector<std::unique_ptr<Input>> inputs;
  for (const auto& [name, array] : tensors) {
    const std::string text = nb::cast<std::string>(name);
    inputs.push_back(std::make_unique<Input>(array, text.c_str()));
    layout.tensors.push_back(
        TensorSpec::plain(text, inputs.back()->dtype(), inputs.back()->shape()));
  }
  unlocked([&]() -> Status {
    PITH_TRY(auto writer,
             CheckpointWriter::create(path, layout, {.overwrite = overwrite}));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PITH_OK(writer->write(i, 0, inputs[i]->bytes()));
    }
    return writer->commit();
  });
}

void add_writing(nb::module_& m) {
  m.def("save", &save, arg("path"), arg("tensors"), nb::kw_only(),
        arg("metadata") = nb::dict(), arg("format").none() = nb::none(),
        arg("overwrite") = false,
        "Writes arrays by name as .safetensors, .gguf, .npz or .npy: all of it or "
        "nothing.");
  nb::class_<ConvertReport>(m, "ConvertReport", "What convert_checkpoint() did.")
      .def_prop_ro("format", [](const ConvertReport& r) { return to_string(r.format); })
      .def_ro("tensors", &ConvertReport::tensors)
      .def_ro("converted", &ConvertReport::converted)
      .def_ro("input_bytes", &ConvertReport::input_bytes)
      .def_ro("output_bytes", &ConvertReport::output_bytes)
      .def_ro("overflowed", &ConvertReport::overflowed)
      .def_ro("not_finite", &ConvertReport::not_finite)
      .def_ro("notes", &ConvertReport::notes);
  m.def(
      "convert_checkpoint",
      [](const std::filesystem::path& input, const std::filesystem::path& output,
         nb::handle dtype, const std::optional<std::string>& format, bool allow_overflow,
         bool overwrite, std::int64_t max_memory, nb::handle progress) {
        ConvertOptions options{.allow_overflow = allow_overflow,
                               .overwrite = overwrite,
                               .max_memory = max_memory};
        if (!dtype.is_none()) options.dtype = to_dtype(dtype);
        if (format) options.format = from_word(kFormats, "format", *format);
        return run_work(progress, [&](CancelToken& stop, const ProgressFunction& report) {
          options.cancel = &stop;
          options.progress = report;
          return convert_checkpoint(input, output, options);
        });
      },
      arg("input"), arg("output"), nb::kw_only(), arg("dtype").none() = nb::none(),
      arg("format").none() = nb::none(), arg("allow_overflow") = false,
      arg("overwrite") = false, arg("max_memory") = std::int64_t{1} << 30,
      arg("progress").none() = nb::none(),
      "Another format ('safetensors', 'gguf', 'npz', 'npy') or element type ('f32', "
      "'f16', "
      "'bf16') for a whole checkpoint, in bounded memory.");
}

}  // namespace

std::shared_ptr<const Checkpoint> to_checkpoint(nb::handle source) {
  File* given = nullptr;
  if (nb::try_cast(source, given) && given != nullptr) return given->checkpoint;
  return open_file(nb::cast<std::filesystem::path>(source), false).checkpoint;
}

void add_files(nb::module_& m) {
  add_lazy_tensor(m);
  add_checkpoint(m);
  add_stats(m);
  add_writing(m);
}

}  // namespace pith::python

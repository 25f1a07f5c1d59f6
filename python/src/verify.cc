#include "pith/pipeline/verify.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/pipeline/restore.h"
#include "work.h"

namespace pith::python {

using nb::arg;

namespace {

void add_compared(nb::module_& m) {
  nb::class_<ComparedTensor>(m, "ComparedTensor", "One tensor on both sides.")
      .def_ro("name", &ComparedTensor::name)
      .def_prop_ro("shape", [](const ComparedTensor& t) { return to_tuple(t.shape); })
      .def_ro("dtype_a", &ComparedTensor::dtype_a)
      .def_ro("dtype_b", &ComparedTensor::dtype_b)
      .def_ro("same", &ComparedTensor::same, "the same values, bit for bit")
      .def_ro("error", &ComparedTensor::error, "ErrorFigures of b against a, or None")
      .def_ro("problem", &ComparedTensor::problem);
  nb::class_<VerifyResult>(m, "VerifyResult",
                           "What verify() found; true if nothing is wrong.")
      .def_ro("tensors", &VerifyResult::tensors)
      .def_ro("checksums", &VerifyResult::checksums, "that were there and agreed")
      .def_ro("figures", &VerifyResult::figures, "likewise")
      .def_ro("aliased", &VerifyResult::aliased, "stored by another name alone")
      .def_ro("files", &VerifyResult::files, "beside the weights, the same")
      .def_ro("source_bytes", &VerifyResult::source_bytes)
      .def_ro("output_bytes", &VerifyResult::output_bytes)
      .def_ro("problems", &VerifyResult::problems, "what is wrong, one line each")
      .def("__bool__", [](const VerifyResult& r) { return r.problems.empty(); })
      .def("_repr_html_",
           [](nb::handle self) {
             return nb::module_::import_("pith._html").attr("verified")(self);
           })
      .def("__repr__", [](const VerifyResult& r) {
        return "<pith.VerifyResult " + std::to_string(r.tensors.size()) + " tensors, " +
               std::to_string(r.problems.size()) + " problems>";
      });
  nb::class_<DiffResult>(m, "DiffResult", "What diff() found.")
      .def_ro("tensors", &DiffResult::tensors)
      .def_ro("same", &DiffResult::same)
      .def_ro("differ", &DiffResult::differ);
  nb::class_<RestoreReport>(m, "RestoreReport", "What restore() did.")
      .def_prop_ro("format", [](const RestoreReport& r) { return to_string(r.format); })
      .def_ro("tensors", &RestoreReport::tensors)
      .def_ro("restored", &RestoreReport::restored, "that were compressed")
      .def_ro("input_bytes", &RestoreReport::input_bytes)
      .def_ro("output_bytes", &RestoreReport::output_bytes)
      .def_ro("notes", &RestoreReport::notes);
}

using Path = std::filesystem::path;

}  // namespace

void add_verify(nb::module_& m) {
  add_compared(m);
  m.def(
      "verify",
      [](const Path& source, const Path& output, std::optional<double> max_rmse,
         std::optional<double> min_sqnr, std::int64_t max_memory, nb::handle progress) {
        VerifyOptions options{
            .max_rmse = max_rmse, .min_sqnr = min_sqnr, .max_memory = max_memory};
        return run_work(progress, [&](CancelToken& stop, const ProgressFunction& report) {
          options.cancel = &stop;
          options.progress = report;
          return verify(source, output, options);
        });
      },
      arg("source"), arg("output"), nb::kw_only(), arg("max_rmse").none() = nb::none(),
      arg("min_sqnr").none() = nb::none(), arg("max_memory") = std::int64_t{1} << 30,
      arg("progress").none() = nb::none(),
      "Reads an output back and compares it with its source: checksums, figures, "
      "limits.");
  m.def(
      "diff",
      [](const Path& a, const Path& b, nb::handle progress) {
        return run_work(progress, [&](CancelToken& stop, const ProgressFunction& report) {
          return diff(a, b, {.cancel = &stop, .progress = report});
        });
      },
      arg("a"), arg("b"), nb::kw_only(), arg("progress").none() = nb::none(),
      "Compares any two checkpoints, each read as if it were dense.");
  m.def(
      "restore",
      [](const Path& source, const Path& output, nb::handle dtype,
         const std::optional<std::string>& format, bool overwrite,
         std::int64_t max_memory, nb::handle progress) {
        RestoreOptions options{
            .dtype = to_dtype(dtype), .overwrite = overwrite, .max_memory = max_memory};
        if (format) options.format = from_word(kFormats, "format", *format);
        return run_work(progress, [&](CancelToken& stop, const ProgressFunction& report) {
          options.cancel = &stop;
          options.progress = report;
          return restore(source, output, options);
        });
      },
      arg("source"), arg("output"), nb::kw_only(), arg("dtype") = "f32",
      arg("format").none() = nb::none(), arg("overwrite") = false,
      arg("max_memory") = std::int64_t{1} << 30, arg("progress").none() = nb::none(),
      "Makes a compressed checkpoint dense again: 'f32', 'f16' or 'bf16'.");
}

}  // namespace pith::python

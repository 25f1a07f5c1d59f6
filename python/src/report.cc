#include "pith/report/report.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>

#include "arrays.h"
#include "module.h"

namespace pith::python {

using nb::arg;

namespace {

template <typename Figure>
auto total(Figure ReportTotals::*figure) {
  return [figure](const Report& r) { return report_totals(r).*figure; };
}

void add_tensors(nb::module_& m) {
  nb::class_<TensorReport>(m, "TensorReport", "What became of one tensor.")
      .def_ro("name", &TensorReport::name)
      .def_prop_ro("shape", [](const TensorReport& t) { return to_tuple(t.shape); })
      .def_ro("dtype", &TensorReport::dtype, "in the source")
      .def_prop_ro(
          "action", [](const TensorReport& t) { return to_string(t.action); },
          "'kept', 'compressed', 'aliased' or 'dropped'")
      .def_ro("rule", &TensorReport::rule, "what decided")
      .def_ro("scheme", &TensorReport::scheme, "how it is stored")
      .def_ro("alias_of", &TensorReport::alias_of)
      .def_ro("bytes_before", &TensorReport::bytes_before)
      .def_ro("bytes_after", &TensorReport::bytes_after)
      .def_ro("error", &TensorReport::error,
              "ErrorFigures of a compressed tensor, else None")
      .def_ro("checksum", &TensorReport::checksum)
      .def_prop_ro("ratio", &TensorReport::ratio)
      .def_prop_ro("sparsity", &TensorReport::sparsity)
      .def("__repr__", [](const TensorReport& t) {
        return "TensorReport('" + t.name + "', " + std::string(to_string(t.action)) +
               ", " + t.scheme + ", " + std::to_string(t.bytes_before) + " -> " +
               std::to_string(t.bytes_after) + " bytes)";
      });
  nb::class_<StageReport>(m, "StageReport", "What a stage did to all tensors.")
      .def_ro("name", &StageReport::name)
      .def_ro("options", &StageReport::options)
      .def_ro("processed", &StageReport::processed)
      .def_ro("skipped", &StageReport::skipped)
      .def_ro("parameters", &StageReport::parameters)
      .def_ro("nonzero_after", &StageReport::nonzero_after)
      .def_ro("bytes_before", &StageReport::bytes_before)
      .def_ro("bytes_after", &StageReport::bytes_after)
      .def_prop_ro("ratio", &StageReport::ratio)
      .def_prop_ro("sparsity", &StageReport::sparsity);
}

}  // namespace

void add_report(nb::module_& m) {
  add_tensors(m);
  nb::class_<Report>(
      m, "Report",
      "What was done to a checkpoint and what it cost. A notebook shows it as a "
      "page.")
      .def_ro("tool", &Report::tool)
      .def_prop_ro("source", [](const Report& r) { return r.source.path; })
      .def_prop_ro("output", [](const Report& r) { return r.output.path; })
      .def_prop_ro(
          "source_bytes", [](const Report& r) { return r.source.bytes; }, "of files")
      .def_prop_ro(
          "output_bytes", [](const Report& r) { return r.output.bytes; }, "of files")
      .def_ro("recipe", &Report::recipe)
      .def_ro("seconds", &Report::seconds)
      .def_ro("stages", &Report::stages)
      .def_ro("tensors", &Report::tensors, "all of the source, in its order")
      .def_ro("warnings", &Report::warnings)
      .def_ro("facts", &Report::facts)
      .def_prop_ro("parameters", total(&ReportTotals::parameters))
      .def_prop_ro("ratio", total(&ReportTotals::ratio),
                   "bytes of source files / of output files")
      .def_prop_ro("bits_per_weight", total(&ReportTotals::bits_per_weight))
      .def_prop_ro("rmse", total(&ReportTotals::rmse))
      .def_prop_ro("sqnr_db", total(&ReportTotals::sqnr_db))
      .def(
          "__getitem__",
          [](const Report& r, const std::string& name) {
            for (const TensorReport& t : r.tensors) {
              if (t.name == name) return t;
            }
            throw nb::key_error(name.c_str());
          },
          arg("name"), "The TensorReport of a name.")
      .def(
          "worst",
          [](const Report& r, std::size_t count) {
            std::vector<TensorReport> worst;
            for (std::size_t i : worst_tensors(r, count)) worst.push_back(r.tensors[i]);
            return worst;
          },
          arg("count") = 5, "Tensors with the lowest SQNR, the worst first.")
      .def("summary", [](const Report& r) { return report_summary(r); })
      .def(
          "markdown", [](const Report& r) { return report_markdown(r); },
          "For a model card.")
      .def(
          "html", [](const Report& r) { return report_html(r); },
          "One page that loads nothing.")
      .def("json", [](const Report& r) { return report_json(r); })
      .def(
          "save",
          [](const Report& r, const std::filesystem::path& path, bool overwrite) {
            unlocked([&] { return write_report(r, path, overwrite); });
          },
          arg("path"), nb::kw_only(), arg("overwrite") = false,
          "Writes .json, .md, .html or .txt.")
      .def("_repr_html_",
           [](const Report& r) {
             // A frame of its own: the page has styles for all of it.
             const nb::object escape = nb::module_::import_("html").attr("escape");
             return "<iframe style=\"width:100%;height:40em;border:0\" srcdoc=\"" +
                    nb::cast<std::string>(escape(report_html(r))) + "\"></iframe>";
           })
      .def("__str__", [](const Report& r) { return report_summary(r); })
      .def("__repr__", [](const Report& r) {
        return "<pith.Report " + std::to_string(r.tensors.size()) + " tensors, " +
               std::to_string(r.source.bytes) + " -> " + std::to_string(r.output.bytes) +
               " bytes>";
      });
  m.def(
      "report",
      [](const std::filesystem::path& path) {
        return unlocked([&] { return read_report(path); });
      },
      arg("path"), "Reads a report.json.");
}

}  // namespace pith::python

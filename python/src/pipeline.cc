#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/pipeline/compress.h"
#include "work.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<FileConvention> kConventions[] = {
    {"auto", FileConvention::kAuto},
    {"pith", FileConvention::kPith},
    {"compressed-tensors", FileConvention::kCompressedTensors}};
constexpr Word<NonFiniteChoice> kNonFiniteChoices[] = {{"error", NonFiniteChoice::kError},
                                                       {"keep", NonFiniteChoice::kKeep},
                                                       {"zero", NonFiniteChoice::kZero}};

// A recipe is YAML, or the path of a file with it.
Recipe read_recipe(nb::handle recipe) {
  if (nb::isinstance<nb::str>(recipe)) {
    const std::string yaml = nb::cast<std::string>(recipe);
    if (yaml.find('\n') != std::string::npos || yaml.find(':') != std::string::npos) {
      return value(Recipe::parse(yaml));
    }
  }
  const nb::object path = nb::module_::import_("pathlib").attr("Path")(recipe);
  const std::string yaml = nb::cast<std::string>(path.attr("read_text")());
  return value(Recipe::parse(yaml, text_of(path)));
}

CompressOptions compress_options(nb::handle recipe, const nb::kwargs& fields) {
  RecipeFlags flags;
  bool any_flag = false;
  CompressOptions options;
  for (const auto& [name, v] : fields) {
    const auto key = nb::cast<std::string>(name);
    if (v.is_none()) continue;
    if (key == "format") {
      options.format = from_word(kFormats, "format", nb::cast<std::string>(v));
      continue;
    }
    if (key == "convention") {
      options.convention =
          from_word(kConventions, "convention", nb::cast<std::string>(v));
      continue;
    }
    if (key == "non_finite") {
      options.non_finite =
          from_word(kNonFiniteChoices, "non_finite", nb::cast<std::string>(v));
      continue;
    }
    if (key == "allow_requantize" || key == "overwrite" || key == "resume" ||
        key == "journal" || key == "samples" || key == "sync") {
      const bool on = nb::cast<bool>(v);
      (key == "allow_requantize" ? options.allow_requantize
       : key == "overwrite"      ? options.overwrite
       : key == "resume"         ? options.resume
       : key == "journal"        ? options.journal
       : key == "samples"        ? options.samples
                                 : options.sync) = on;
      continue;
    }
    if (key == "max_memory") {
      options.max_memory = nb::cast<std::int64_t>(v);
      continue;
    }
    any_flag = true;
    if (key == "prune") {
      flags.prune = text_of(v);
    } else if (key == "importance") {
      flags.prune_metric = text_of(v);
    } else if (key == "n_m") {
      flags.nm = text_of(v);
    } else if (key == "quantize") {
      flags.quantize = text_of(v);
    } else if (key == "smooth") {
      flags.smooth = text_of(v);
    } else if (key == "alpha") {
      flags.alpha = text_of(v);
    } else if (key == "ignore") {
      flags.ignore = nb::cast<std::vector<std::string>>(v);
    } else if (key == "skip_embeddings") {
      flags.skip_embeddings = nb::cast<bool>(v);
    } else if (key == "seed") {
      flags.seed = nb::cast<std::uint64_t>(v);
    } else {
      raise_unknown(
          "keyword", key,
          "prune, importance, n_m, smooth, alpha, quantize, ignore, skip_embeddings, "
          "seed, format, "
          "convention, non_finite, allow_requantize, overwrite, resume, journal, "
          "samples, sync, max_memory");
    }
  }
  if (!recipe.is_none() && any_flag) {
    raise(
        Status::invalid_argument("recipe: it was given together with keywords that make "
                                 "one (prune, quantize, ...)"));
  }
  options.recipe =
      recipe.is_none() ? value(recipe_from_flags(flags)) : read_recipe(recipe);
  return options;
}

void add_plan(nb::module_& m) {
  nb::class_<PlannedTensor>(m, "PlannedTensor", "What will become of one tensor.")
      .def_ro("name", &PlannedTensor::name)
      .def_prop_ro("shape", [](const PlannedTensor& t) { return to_tuple(t.shape); })
      .def_ro("dtype", &PlannedTensor::dtype)
      .def_prop_ro("action", [](const PlannedTensor& t) { return to_string(t.action); })
      .def_ro("rule", &PlannedTensor::rule)
      .def_ro("scheme", &PlannedTensor::scheme)
      .def_ro("alias_of", &PlannedTensor::alias_of)
      .def_ro("note", &PlannedTensor::note)
      .def_ro("bytes_before", &PlannedTensor::bytes_before)
      .def_ro("bytes_after", &PlannedTensor::bytes_after);
  nb::class_<Plan>(m, "Plan", "What compress() will do, to the byte.")
      .def_prop_ro("format", [](const Plan& p) { return to_string(p.format); })
      .def_prop_ro("convention",
                   [](const Plan& p) { return to_word(kConventions, p.convention); })
      .def_ro("tensors", &Plan::tensors)
      .def_ro("input_bytes", &Plan::input_bytes)
      .def_ro("output_bytes", &Plan::output_bytes,
              "of the files with weights, to the byte")
      .def_ro("copied_bytes", &Plan::copied_bytes)
      .def_ro("memory_bytes", &Plan::memory_bytes)
      .def_ro("passes", &Plan::passes)
      .def_ro("loads", &Plan::loads, "what can read the output")
      .def_ro("warnings", &Plan::warnings)
      .def("_repr_html_",
           [](nb::handle self) {
             return nb::module_::import_("pith._html").attr("plan")(self);
           })
      .def("__repr__", [](const Plan& p) {
        return "<pith.Plan " + std::to_string(p.tensors.size()) + " tensors, " +
               std::to_string(p.input_bytes) + " -> " + std::to_string(p.output_bytes) +
               " bytes>";
      });
}

constexpr const char* kKeywords =
    "\n\nWithout a recipe (YAML, or the path of a file with it): prune=0.5, "
    "importance='l2', "
    "n_m='2:4', quantize='int8-row', ignore=['lm_head'], skip_embeddings=True, seed=0. "
    "Beside "
    "either: format, convention ('auto', 'pith', 'compressed-tensors'), non_finite "
    "('error', "
    "'keep', 'zero'), allow_requantize, overwrite, sync, max_memory, samples, journal, "
    "resume.";

}  // namespace

void add_pipeline(nb::module_& m) {
  add_plan(m);
  m.def(
      "plan",
      [](const std::filesystem::path& source, const std::filesystem::path& output,
         nb::handle recipe, const nb::kwargs& fields) {
        const CompressOptions options = compress_options(recipe, fields);
        return unlocked([&] { return plan(source, output, options); });
      },
      arg("source"), arg("output") = "", arg("recipe").none() = nb::none(),
      arg("options"),
      (std::string("What compress() would do; reads headers only.") + kKeywords).c_str());
  m.def(
      "compress",
      [](const std::filesystem::path& source, const std::filesystem::path& output,
         nb::handle recipe, nb::handle progress, const nb::kwargs& fields) {
        CompressOptions options = compress_options(recipe, fields);
        return run_work(progress, [&](CancelToken& stop, const ProgressFunction& report) {
          options.cancel = &stop;
          options.progress = report;
          return compress(source, output, options);
        });
      },
      arg("source"), arg("output"), arg("recipe").none() = nb::none(),
      arg("progress").none() = nb::none(), arg("options"),
      (std::string(
           "Compresses a checkpoint, file to file, in bounded memory, and tells what it "
           "cost.\n\n"
           ">>> import numpy as np, os, tempfile\n"
           ">>> folder = tempfile.mkdtemp()\n"
           ">>> big = os.path.join(folder, 'big.safetensors')\n"
           ">>> small = os.path.join(folder, 'small.safetensors')\n"
           ">>> pith.save(big, {'fc.weight': np.eye(256, dtype=np.float32)})\n"
           ">>> report = pith.compress(big, small, quantize='int8-row')\n"
           ">>> report.output_bytes == os.path.getsize(small), report.ratio > 3.5\n"
           "(True, True)\n"
           ">>> pith.open(small)['fc.weight'][0, :2]\n"
           "array([1., 0.], dtype=float32)\n\n"
           "progress: True, or a function of (item, done, total) in bytes. Ctrl-C stops "
           "the run and leaves nothing behind.") +
       kKeywords)
          .c_str());
}

}  // namespace pith::python

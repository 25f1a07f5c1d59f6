// pith demo: a small network is compressed in several ways, and asked the same questions
// before and after.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/demo_data.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/threads.h"
#include "pith/pipeline/compress.h"
#include "pith/quantize/dense.h"
#include "pith/report/report.h"
#include "pith/run/linear.h"

namespace pith::cli {
namespace {

namespace fs = std::filesystem;

struct DemoRecipe {
  const char* name;
  const char* file;
  const char* flags;  // as one would write them
  RecipeFlags recipe;
};

std::vector<DemoRecipe> demo_recipes() {
  const auto quantize = [](const char* scheme) {
    RecipeFlags flags;
    flags.quantize = scheme;
    return flags;
  };
  RecipeFlags half = quantize("int8");
  half.prune = "0.5";
  RecipeFlags two_of_four = quantize("int4-g32");
  two_of_four.nm = "2:4";
  return {
      {"int8", "int8.safetensors", "--quantize int8", quantize("int8")},
      {"int8-row", "int8-row.safetensors", "--quantize int8-row", quantize("int8-row")},
      {"int8-block64", "int8-block64.safetensors", "--quantize int8-block64",
       quantize("int8-block64")},
      {"q8_0", "q8_0.gguf", "--quantize q8_0", quantize("q8_0")},
      {"int4-g32", "int4-g32.safetensors", "--quantize int4-g32", quantize("int4-g32")},
      {"prune 50 %, int8", "prune50-int8.safetensors", "--prune 0.5 --quantize int8",
       half},
      {"2:4, int4-g32", "nm24-int4.safetensors", "--nm 2:4 --quantize int4-g32",
       two_of_four},
  };
}

struct Questions {
  std::vector<float> images;  // [count][64], pixels from 0 to 1
  std::vector<int> labels;
  std::int64_t count = 0;
};

// What a network says to all of them.
struct Answers {
  std::vector<int> digits;
  std::int64_t right = 0;
  std::int64_t bytes = 0;

  [[nodiscard]] double accuracy() const {
    return static_cast<double>(right) / static_cast<double>(digits.size());
  }
};

Status write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file.good()) return {};
  return {StatusCode::kIo, fmt::format("{}: cannot write", path.string())};
}

Result<Questions> read_questions(const fs::path& path) {
  PITH_TRY(const std::unique_ptr<Checkpoint> file, Checkpoint::open(path));
  const auto read = [&](std::string_view name) -> Result<std::vector<float>> {
    const std::size_t tensor = file->find(name).value();  // our own file
    const Shape& shape = file->tensors()[tensor].shape;
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    PITH_OK(file->read_rows(tensor, 0, shape.rows(), values));
    return values;
  };
  Questions questions;
  PITH_TRY(questions.images, read("images"));
  for (float& pixel : questions.images) pixel /= 16;
  PITH_TRY(const std::vector<float> labels, read("labels"));
  for (const float label : labels) questions.labels.push_back(static_cast<int>(label));
  questions.count = static_cast<std::int64_t>(labels.size());
  return questions;
}

// Three layers with rectifiers between them, computed with the weights as they are stored.
Result<Answers> ask(const fs::path& model, const Questions& questions) {
  PITH_TRY(const std::unique_ptr<Checkpoint> checkpoint, open_dense(model));
  std::vector<float> values = questions.images;
  for (const char* name : {"fc1.weight", "fc2.weight", "fc3.weight"}) {
    PITH_TRY(Linear layer, Linear::load(*checkpoint, name));
    if (values.size() != questions.images.size()) {  // not for the input
      for (float& value : values) value = std::max(value, 0.0F);
    }
    std::vector<float> next(static_cast<std::size_t>(questions.count * layer.outputs()));
    PITH_OK(layer.forward(values, questions.count, next));
    values = std::move(next);
  }
  Answers answers;
  const auto classes = static_cast<std::ptrdiff_t>(values.size()) / questions.count;
  for (std::int64_t i = 0; i < questions.count; ++i) {
    const auto begin = values.begin() + i * classes;
    const auto digit = static_cast<int>(std::max_element(begin, begin + classes) - begin);
    answers.digits.push_back(digit);
    answers.right += digit == questions.labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  answers.bytes = static_cast<std::int64_t>(fs::file_size(model));
  return answers;
}

std::int64_t same_answers(const Answers& a, const Answers& b) {
  std::int64_t same = 0;
  for (std::size_t i = 0; i < a.digits.size(); ++i) {
    same += a.digits[i] == b.digits[i] ? 1 : 0;
  }
  return same;
}

struct DemoArguments {
  std::string folder = "pith-demo";
  bool force = false;
  bool json = false;
  CommonOptions common;
};

struct Outcome {
  std::string recipe;
  std::string flags;
  std::string file;
  Answers answers;
  std::int64_t same = 0;
  double bits_per_weight = 0;
  double sqnr_db = std::numeric_limits<double>::infinity();
};

std::string as_table(const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::string>> rows = {
      {"recipe", "bytes", "ratio", "bits/weight", "SQNR", "accuracy", "same answers"}};
  const auto before = static_cast<double>(outcomes[0].answers.bytes);
  for (const Outcome& outcome : outcomes) {
    rows.push_back(
        {outcome.recipe, with_commas(outcome.answers.bytes),
         fmt::format("{:.2f}x", before / static_cast<double>(outcome.answers.bytes)),
         fmt::format("{:.2f}", outcome.bits_per_weight),
         std::isinf(outcome.sqnr_db) ? "-" : fmt::format("{:.1f} dB", outcome.sqnr_db),
         fmt::format("{:.2f} %", 100 * outcome.answers.accuracy()),
         fmt::format("{} of {}", outcome.same, outcome.answers.digits.size())});
  }
  return format_table(rows, {false, true, true, true, true, true, true},
                      decorate_results());
}

std::string as_json(const std::vector<Outcome>& outcomes, std::int64_t questions) {
  nlohmann::ordered_json document = {{"schema_version", 1},
                                     {"command", "demo"},
                                     {"images", questions},
                                     {"recipes", nlohmann::ordered_json::array()}};
  for (const Outcome& outcome : outcomes) {
    document["recipes"].push_back({{"recipe", outcome.recipe},
                                   {"flags", outcome.flags},
                                   {"file", outcome.file},
                                   {"bytes", outcome.answers.bytes},
                                   {"bits_per_weight", outcome.bits_per_weight},
                                   {"sqnr_db", outcome.sqnr_db},  // infinity is null
                                   {"right", outcome.answers.right},
                                   {"same", outcome.same}});
  }
  return json_text(document);
}

Result<Outcome> try_recipe(const DemoArguments& arguments, const DemoRecipe& recipe,
                           const Questions& questions, const Answers& original) {
  const fs::path folder = arguments.folder;
  const fs::path model = folder / "model.safetensors";
  CompressOptions options;
  PITH_TRY(options.recipe, recipe_from_flags(recipe.recipe));
  options.overwrite = arguments.force;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  Outcome outcome;
  outcome.recipe = recipe.name;
  outcome.flags = recipe.flags;
  outcome.file = (folder / recipe.file).string();
  PITH_TRY(Report report, compress(model, outcome.file, options));
  PITH_TRY(outcome.answers, ask(outcome.file, questions));
  outcome.same = same_answers(outcome.answers, original);
  outcome.bits_per_weight = report_totals(report).bits_per_weight;
  outcome.sqnr_db = report_totals(report).sqnr_db;
  report.facts.emplace_back(
      fmt::format("accuracy, {} images", questions.count),
      fmt::format("{:.2f} % \u2192 {:.2f} %", 100 * original.accuracy(),
                  100 * outcome.answers.accuracy()));
  for (const char* ending : {".html", ".json"}) {
    PITH_OK(write_report(report, fs::path(outcome.file).replace_extension(ending),
                         arguments.force));
  }
  return outcome;
}

Status run(const DemoArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  const fs::path folder = arguments.folder;
  std::error_code error;
  if (fs::exists(folder, error) && !arguments.force) {
    return {StatusCode::kAlreadyExists,
            fmt::format("{}: exists already", folder.string())};
  }
  fs::create_directories(folder, error);
  if (error) {
    return {StatusCode::kIo,
            fmt::format("{}: cannot be made: {}", folder.string(), error.message())};
  }
  PITH_OK(write_file(folder / "model.safetensors", demo_model()));
  PITH_OK(write_file(folder / "test.safetensors", demo_test()));
  PITH_TRY(const Questions questions, read_questions(folder / "test.safetensors"));

  std::vector<Outcome> outcomes(1);
  Outcome& original = outcomes[0];
  original.recipe = "f32, as trained";
  original.file = (folder / "model.safetensors").string();
  PITH_TRY(original.answers, ask(original.file, questions));
  original.same = questions.count;
  PITH_TRY(const std::unique_ptr<Checkpoint> model, Checkpoint::open(original.file));
  std::int64_t parameters = 0;
  for (const TensorInfo& tensor : model->tensors()) parameters += tensor.shape.elements();
  original.bits_per_weight =
      8 * static_cast<double>(original.answers.bytes) / static_cast<double>(parameters);

  for (const DemoRecipe& recipe : demo_recipes()) {
    PITH_TRY(Outcome outcome,
             try_recipe(arguments, recipe, questions, outcomes[0].answers));
    outcomes.push_back(std::move(outcome));
  }
  if (arguments.json) return print_result(as_json(outcomes, questions.count));
  return print_result(fmt::format(
      "A network of {} parameters that reads handwritten digits, asked about {} images\n"
      "it has never seen, before and after compression.\n\n{}\n"
      "report  {}\n",
      with_commas(parameters), questions.count, as_table(outcomes),
      escape_controls((folder / "prune50-int8.html").string())));
}

}  // namespace

Run add_demo(CLI::App& command) {
  auto arguments = std::make_shared<DemoArguments>();
  command
      .add_option("-o,--output", arguments->folder,
                  "Folder for the models and their reports; pith-demo by default")
      ->type_name("FOLDER");
  command.add_flag("--force", arguments->force, "Replace what the folder has");
  command.add_flag("--json", arguments->json, "Print one JSON document");
  add_common_options(command, arguments->common);
  command.footer(
      "The network and the images are part of the command; nothing is loaded.\n"
      "\n"
      "Examples:\n"
      "  pith demo\n"
      "  pith demo -o /tmp/demo --force --json\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli

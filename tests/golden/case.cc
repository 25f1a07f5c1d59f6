#include "tests/golden/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "tests/golden/adapters.h"
#include "tests/golden/compare.h"
#include "tests/golden/deviations.h"
#include "tests/golden/errors.h"

namespace pith::golden {
namespace {

constexpr std::string_view kDefectTag = "defect:";

std::string compare_with_reference(const Case& item, const Result<Json>& answer) {
  if (item.error.empty()) {
    if (!answer) {
      return fmt::format("expected an output, got the error '{}'",
                         answer.error().message());
    }
    return difference(item.output, *answer, item.tolerances);
  }
  if (answer) {
    return fmt::format("expected the error {}, got the output {}", item.error,
                       answer->dump().substr(0, 200));
  }
  return not_of_kind(answer.error(), item.error, item.error_info);
}

Finding judge(const Case& item) {
  const Deviation* deviation = find_deviation(item);
  if (deviation != nullptr && deviation->check == nullptr) {
    return {Verdict::kSkipped, std::string(deviation->pith)};
  }
  if (!item.recommended.is_null()) {
    std::string text = run_hazard(item);
    return {text.empty() ? Verdict::kPassed : Verdict::kFailed, std::move(text)};
  }
  const Adapter adapter = find_adapter(item.function);
  if (adapter == nullptr) {
    return {Verdict::kFailed, fmt::format("no adapter for function '{}'", item.function)};
  }
  const Result<Json> answer = adapter(item.inputs);
  if (deviation != nullptr) {
    std::string text = deviation->check(item, answer);
    if (text.empty()) return {Verdict::kDeviates, {}};
    return {Verdict::kFailed, fmt::format("defect:{}: expected that Pith {}: {}",
                                          deviation->defect, deviation->pith, text)};
  }
  std::string text = compare_with_reference(item, answer);
  return {text.empty() ? Verdict::kPassed : Verdict::kFailed, std::move(text)};
}

}  // namespace

bool Case::has_defect(std::string_view slug) const {
  return std::find(defects.begin(), defects.end(), slug) != defects.end();
}

Case parse_case(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    Case item;
    item.name = json.at("case").get<std::string>();
    item.function = json.at("function").get<std::string>();
    item.inputs = json.at("inputs");
    if (json.contains("recommended")) {
      item.recommended = json.at("recommended");
      item.defects.push_back(json.at("defect").get<std::string>());
      return item;
    }
    for (const Json& tag : json.at("tags")) {
      const auto text = tag.get<std::string>();
      if (text.starts_with(kDefectTag)) {
        item.defects.push_back(text.substr(kDefectTag.size()));
      }
    }
    if (json.contains("output") == json.contains("error")) {
      throw BadCase("expected either 'output' or 'error'");
    }
    if (json.contains("output")) item.output = json.at("output");
    if (json.contains("error")) item.error = json.at("error").get<std::string>();
    item.error_info = json.value("error_info", Json::object());
    item.tolerances = json.value("tol", Json::object());
    return item;
  } catch (const Json::exception& error) {
    throw BadCase(error.what());
  }
}

Finding run_case(const Case& item) {
  try {
    return judge(item);
  } catch (const BadCase& error) {
    return {Verdict::kFailed, fmt::format("bad case: {}", error.what())};
  } catch (const Json::exception& error) {
    return {Verdict::kFailed, fmt::format("bad case: {}", error.what())};
  }
}

}  // namespace pith::golden

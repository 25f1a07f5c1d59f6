// docs/report.schema.json says what report_json writes, and parse_report agrees with it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "src/report/example.h"

namespace pith {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  ADD_FAILURE() << "the checker does not know type " << type;
  return false;
}

// The parts of JSON Schema that the schema uses; any other is a failure. Returns what is
// wrong with `value`, or nothing.
std::string check(const Json& root, const Json& schema, const Json& value,
                  const std::string& where) {
  for (const auto& [key, rule] : schema.items()) {
    if (key == "description" || key == "title" || key == "$schema" || key == "$defs" ||
        key == "properties") {
      continue;
    }
    // As JSON Schema has it, a rule holds for values of its own type only.
    const bool for_arrays = key == "items" || key == "minItems" || key == "maxItems";
    const bool for_objects = key == "required" || key == "additionalProperties";
    if ((for_arrays && !value.is_array()) || (for_objects && !value.is_object()) ||
        (key == "pattern" && !value.is_string())) {
      continue;
    }
    std::string wrong;
    if (key == "$ref") {
      wrong = check(root, root.at(Json::json_pointer(rule.get<std::string>().substr(1))),
                    value, where);
    } else if (key == "type") {
      bool fits = false;
      for (const Json& type : rule.is_array() ? rule : Json::array({rule})) {
        fits = fits || has_type(value, type.get<std::string>());
      }
      if (!fits) wrong = where + " is not of type " + rule.dump();
    } else if (key == "const") {
      if (value != rule) wrong = where + " is not " + rule.dump();
    } else if (key == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end()) {
        wrong = where + " is none of " + rule.dump();
      }
    } else if (key == "minimum" || key == "maximum") {
      if (value.is_number() && (key == "minimum" ? value < rule : value > rule)) {
        wrong = where + " breaks its " + key;
      }
    } else if (key == "minItems" || key == "maxItems") {
      if (key == "minItems" ? value.size() < rule : value.size() > rule) {
        wrong = where + " breaks its " + key;
      }
    } else if (key == "pattern") {
      if (!std::regex_match(value.get<std::string>(),
                            std::regex(rule.get<std::string>()))) {
        wrong = where + " does not match";
      }
    } else if (key == "items") {
      for (std::size_t i = 0; i < value.size() && wrong.empty(); ++i) {
        wrong = check(root, rule, value[i], where + "/" + std::to_string(i));
      }
    } else if (key == "required") {
      for (const Json& name : rule) {
        if (!value.contains(name.get<std::string>())) {
          wrong = where + " lacks " + name.dump();
        }
      }
    } else if (key == "additionalProperties") {
      for (const auto& [name, member] : value.items()) {
        if (!schema.at("properties").contains(name)) {
          wrong = where + " has " + name;
          break;
        }
        wrong = check(root, schema.at("properties").at(name), member, where + "/" + name);
        if (!wrong.empty()) break;
      }
    } else {
      ADD_FAILURE() << "the checker does not know " << key;
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

class ReportSchema : public ::testing::Test {
 protected:
  ReportSchema() { schema_ = Json::parse(std::ifstream(PITH_REPORT_SCHEMA)); }
  std::string wrong(const Json& document) const {
    return check(schema_, schema_, document, "");
  }
  Json schema_;
};

TEST_F(ReportSchema, HoldsForWhatIsWritten) {
  EXPECT_EQ(wrong(Json::parse(report_json(example_report()))), "");
  EXPECT_EQ(wrong(Json::parse(report_json({}))), "");
}

TEST_F(ReportSchema, RefusesWhatTheReaderRefuses) {
  const Json good = Json::parse(report_json(example_report()));
  const auto refused = [&](const char* place, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(place)] = value;
    EXPECT_NE(wrong(bad), "") << place;
    EXPECT_FALSE(parse_report(bad.dump()).has_value()) << place;
  };
  refused("/schema_version", 2);
  refused("/unknown", 1);
  refused("/seconds", -1);
  refused("/source/bytes", 1.5);
  refused("/tensors/0/action", "lost");
  refused("/tensors/0/shape", "4x4");
  refused("/tensors/0/error/count", nullptr);
  refused("/tensors/0/weights/counts", Json::array());
  refused("/tensors/0/nonzeros/rows", 33);
  refused("/stages/0/processed", "two");
}

}  // namespace
}  // namespace pith

#include "src/report/example.h"

namespace pith {
namespace {

TensorReport tensor(std::string name, std::initializer_list<std::int64_t> extents,
                    TensorAction action) {
  TensorReport made;
  made.name = std::move(name);
  made.shape = Shape::make(extents).value();
  made.dtype = "f32";
  made.action = action;
  made.bytes_before = 4 * made.shape.elements();
  return made;
}

ErrorFigures figures(std::int64_t count, std::int64_t zeros, double error) {
  ErrorFigures made;
  made.count = count;
  made.zeros_before = 2;
  made.zeros_after = zeros;
  made.saturated = 1;
  made.sum_error = error * static_cast<double>(count) * 0.5;
  made.sum_error_squared = error * error * static_cast<double>(count);
  made.sum_squared_before = static_cast<double>(count);
  made.sum_squared_after = static_cast<double>(count) * 0.75;
  made.max_error = 3 * error;
  made.max_index = 70;
  return made;
}

}  // namespace

Report example_report() {
  Report report;
  report.tool = "pith 0.1.0";
  report.source = {"model.safetensors", "safetensors", 1, 12000};
  report.output = {"small.safetensors", "safetensors", 1, 3000};
  report.recipe = "--prune 0.5 --quantize int8-row";
  report.environment = {2, "avx2", "Some Processor"};
  report.seconds = 0.25;
  report.stages = {{"prune", "0.5 by L1", 2, 3, 2336, 1309, 9344, 9344},
                   {"quantize", "int8 row f32", 2, 3, 2336, 1309, 9344, 2816}};

  TensorReport first = tensor("layers.0.up.weight", {64, 32}, TensorAction::kCompressed);
  first.rule = "match: *.weight";
  first.scheme = "prune 0.5, int8 row f32";
  first.bytes_after = 2304;
  first.error = figures(2048, 1024, 0.125);
  first.checksum = "0123456789abcdef";
  first.weights = {-1.5, 1.5, {1, 20, 300, 200, 10, 0}};
  first.codes = {-128, 128, {5, 6, 7, 8}};
  first.nonzeros = {2, 3, {0, 64, 128, 255, 9, 1}};
  report.tensors.push_back(std::move(first));

  TensorReport second =
      tensor("layers.0.</script><b>&'\"|`.weight", {32, 8}, TensorAction::kCompressed);
  second.rule = "match: *.weight";
  second.scheme = "int8 row f32";
  second.bytes_after = 384;
  second.error = figures(256, 3, 0.01);
  second.weights = {-1, 1, {1, 2}};
  report.tensors.push_back(std::move(second));

  TensorReport third = tensor("norm.weight", {32}, TensorAction::kKept);
  third.rule = "rank below 2";
  third.bytes_after = 128;
  report.tensors.push_back(std::move(third));

  TensorReport fourth = tensor("head.weight", {64, 32}, TensorAction::kAliased);
  fourth.alias_of = "layers.0.up.weight";
  report.tensors.push_back(std::move(fourth));
  report.tensors.push_back(tensor("optimizer.step", {}, TensorAction::kDropped));

  report.warnings = {"a tensor was cleared altogether: <none>"};
  report.facts = {{"accuracy", "97.5 % before, 97.2 % after"}};
  return report;
}

}  // namespace pith

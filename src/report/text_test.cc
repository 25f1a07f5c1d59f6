// The texts that are made of a report, and reading JSON back.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "pith/report/format.h"
#include "pith/report/report.h"
#include "src/report/example.h"
#include "src/report/layers.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::TempFolder;

TEST(ReportSummary, IsADozenLines) {
  EXPECT_EQ(report_summary(example_report()),
            R"(model.safetensors -> small.safetensors
  2,304 of 2,336 (98.6 %) parameters compressed; 5 tensors: 2 compressed, 1 kept, 1 aliased, 1 dropped
  11.7 KiB -> 2.9 KiB on disk, 4.00x smaller, 10.27 bits per weight
  error: rmse 0.118, sqnr 18.6 dB; 44.6 % of the compressed weights are zero
  worst tensors                         sqnr   rmse  max error  at      scheme
  layers.0.up.weight                 18.1 dB  0.125      0.375  [2, 6]  prune 0.5, int8 row f32
  layers.0.</script><b>&'"|`.weight  40.0 dB   0.01       0.03  [8, 6]  int8 row f32
  accuracy: 97.5 % before, 97.2 % after
  warning: a tensor was cleared altogether: <none>
  0.25 s, 46.9 KiB/s, 2 threads, avx2
)");
}

TEST(ReportSummary, OfNothingIsShort) {
  Report report;
  report.environment = {1, "sse4", ""};
  EXPECT_EQ(report_summary(report),
            " -> \n"
            "  nothing was compressed; 0 tensors: 0 compressed, 0 kept\n"
            "  0 B -> 0 B on disk, the same size, 0.00 bits per weight\n"
            "  0.00 s, 0 B/s, 1 thread, sse4\n");
}

// One tensor, kept in a file that has grown.
Report kept_report() {
  Report report = example_report();
  report.tensors = {report.tensors[2]};
  report.source.bytes = 504808;
  report.output.bytes = 505936;
  return report;
}

TEST(ReportSummary, SaysThatNothingWasCompressed) {
  const std::string text = report_summary(kept_report());
  EXPECT_NE(text.find("  nothing was compressed; 1 tensor: 0 compressed, 1 kept\n"
                      "  493.0 KiB -> 494.1 KiB on disk, 0.2 % larger, "),
            std::string::npos)
      << text;
}

TEST(ReportMarkdown, SaysThatNothingWasCompressed) {
  const std::string text = report_markdown(kept_report());
  EXPECT_NE(text.find("\n**0.2 % larger.** Nothing was compressed.\n"), std::string::npos)
      << text;
}

TEST(ReportText, SizesAreComparedInWords) {
  EXPECT_EQ(report::size_change(400, 100), "4.00x smaller");
  EXPECT_EQ(report::size_change(1000, 995), "0.5 % smaller");
  EXPECT_EQ(report::size_change(100000, 100001), "< 0.1 % larger");
  EXPECT_EQ(report::size_change(100, 250), "150.0 % larger");
  EXPECT_EQ(report::size_change(7, 7), "the same size");
  EXPECT_EQ(report::size_change(0, 7), "larger");
  EXPECT_EQ(report::size_change(7, 0), "smaller");
}

TEST(ReportSummary, NamesCannotCommandATerminal) {
  Report report = example_report();
  report.tensors[0].name = "a\x1b[31m\n\xc2\x9b\xff";
  const std::string text = report_summary(report);
  EXPECT_NE(text.find(R"(  a\x1b[31m\n\xc2\x9b\xff )"), std::string::npos) << text;
}

TEST(ReportText, NamesCannotTurnTheTextAroundThem) {
  EXPECT_EQ(report::one_line("a\u202eb\u2066c\u200f\u061c\u2028"),
            R"(a\u202eb\u2066c\u200f\u061c\u2028)");
  EXPECT_EQ(report::one_line("größe.\u200d\u2027\u202f\u206a"),
            "größe.\u200d\u2027\u202f\u206a");
  Report report = example_report();
  report.tensors[0].name = "a\u202eb";
  EXPECT_NE(report_markdown(report).find(R"(| `a\u202eb` |)"), std::string::npos);
}

TEST(ReportMarkdown, IsAModelCard) {
  EXPECT_EQ(report_markdown(example_report()), R"(## Compression

`small.safetensors` was made of `model.safetensors` by pith 0.1.0.

| | before | after |
|---|---:|---:|
| bytes on disk | 12,000 | 3,000 |
| of these outside tensors: headers, manifest, padding |  | 184 |
| format | safetensors | safetensors |
| bits per weight | 41.10 | 10.27 |
| accuracy | | 97.5 % before, 97.2 % after |

**4.00x smaller.** 2,304 of 2,336 (98.6 %) parameters are compressed: RMSE 0.118, SQNR 18.6 dB against the source, 44.6 % of them zero.

> **Warning.** a tensor was cleared altogether: &#60;none&#62;

### Recipe

```text
--prune 0.5 --quantize int8-row
```

### Stages

| stage | options | tensors | skipped | parameters | nonzero | zeros | bytes before | bytes after | ratio |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
| prune | 0.5 by L1 | 2 | 3 | 2,336 | 1,309 | 44.0 % | 9,344 | 9,344 | 1.00x |
| quantize | int8 row f32 | 2 | 3 | 2,336 | 1,309 | 44.0 % | 9,344 | 2,816 | 3.32x |

### Tensors

| tensor | shape | what | stored as | bytes before | bytes after | ratio | zeros | SQNR | RMSE | max error |
|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|
| `layers.0.up.weight` | [64, 32] | compressed | prune 0.5, int8 row f32 | 8,192 | 2,304 | 3.56x | 50.0 % | 18.1 dB | 0.125 | 0.375 |
| <code>layers.0.&#60;/script&#62;&#60;b&#62;&#38;'"&#124;&#96;.weight</code> | [32, 8] | compressed | int8 row f32 | 1,024 | 384 | 2.67x | 1.2 % | 40.0 dB | 0.01 | 0.03 |
| `norm.weight` | [32] | kept |  | 128 | 128 | 1.00x |  | | | |
| `head.weight` | [64, 32] | aliased | `layers.0.up.weight` | 8,192 | 0 | - |  | | | |
| `optimizer.step` | [] | dropped |  | 4 | 0 | - |  | | | |

0.25 s, 46.9 KiB of the source per second; 2 threads, avx2, Some Processor.
)");
}

TEST(ReportMarkdown, ShowsLayersWhereTensorsAreMany) {
  Report report = example_report();
  const TensorReport one = report.tensors[0];
  for (int layer = 0; layer < 60; ++layer) {
    for (const char* part : {"up", "down"}) {
      report.tensors.push_back(one);
      report.tensors.back().name =
          "layers." + std::to_string(layer) + "." + part + ".weight";
    }
  }
  const std::string text = report_markdown(report);
  EXPECT_EQ(text.find("### Tensors"), std::string::npos);
  EXPECT_NE(text.find("| `layers.59` | 2 | 4,096 | 16,384 | 4,608 | 3.56x | 18.1 dB | "
                      "0.125 | 0.375 |\n"),
            std::string::npos)
      << text;
}

TEST(ReportMarkdown, LayersAreCounted) {
  Report report = example_report();
  const TensorReport one = report.tensors[2];
  report.tensors.clear();
  for (const char* name :
       {"embed.w", "h.0.w", "h.1.w", "h.10.b10", "h.10.b9", "h.2.w", "a.w"}) {
    report.tensors.push_back(one);
    report.tensors.back().name = name;
  }
  const auto order_of = [&] {
    const std::string text = report_markdown(report);
    std::string order;
    for (std::size_t at = 0; (at = text.find("\n| `", at)) != std::string::npos; ++at) {
      order += text.substr(at + 4, text.find('`', at + 4) - at - 4) + " ";
    }
    return order;
  };
  EXPECT_EQ(order_of(), "embed.w h.0.w h.1.w h.2.w h.10.b9 h.10.b10 a.w ");
  for (int i = 0; i < 100; ++i) report.tensors.push_back(report.tensors.back());
  EXPECT_EQ(order_of(), "embed h.0 h.1 h.2 h.10 a ");
}

TEST(ReportLayers, NamesThatDifferByNumbersAreCounted) {
  using Order = std::vector<std::size_t>;
  EXPECT_EQ(report::counted_order({"b10", "a", "b2"}), (Order{2, 1, 0}));
  EXPECT_EQ(report::counted_order({"l2.0", "l1.10", "l1.9", "l2"}), (Order{2, 1, 0, 3}));
  EXPECT_EQ(report::counted_order({"x99999999999999999999", "x007", "x8", "x0"}),
            (Order{3, 1, 2, 0}));
  EXPECT_EQ(report::counted_order({}), Order{});
}

TEST(ReportMarkdown, FencesAreLongerThanThoseOfTheRecipe) {
  Report report = example_report();
  report.recipe = "a\n````\nb\x1b";
  EXPECT_NE(report_markdown(report).find("`````text\na\n````\nb\\x1b\n`````\n"),
            std::string::npos);
}

TEST(ReportJson, ComesBackAsItWas) {
  Report report = example_report();
  EXPECT_EQ(parse_report(report_json(report)).value(), report);
  report.tensors[0].error->max_error = std::numeric_limits<double>::infinity();
  report.tensors[0].error->sum_error = std::numeric_limits<double>::infinity();
  report.tensors[0].error->max_index = -1;
  report.tensors[1].name = "\n\t\"\\ \xe2\x80\xa8 ü";
  EXPECT_EQ(parse_report(report_json(report)).value(), report);
  EXPECT_EQ(parse_report(report_json({})).value(), Report{});
}

TEST(ReportJson, HasALineForEachTensor) {
  const std::string text = report_json(example_report());
  EXPECT_NE(text.find(
                R"(
    {"name":"norm.weight","layer":"norm","shape":[32],"dtype":"f32","action":"kept","rule":"rank below 2","scheme":"","bytes_before":128,"bytes_after":128,"ratio":1.0,"sparsity":0.0},
)"),
            std::string::npos)
      << text;
}

// Replaces the first `from`, which must be there.
std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void expect_refused(const std::string& json, std::string_view message,
                    StatusCode code = StatusCode::kCorrupt) {
  const Result<Report> report = parse_report(json);
  ASSERT_FALSE(report.has_value()) << message;
  EXPECT_EQ(report.error().code(), code);
  EXPECT_NE(report.error().message().find(message), std::string::npos)
      << report.error().message();
}

TEST(ReportJson, BadDocumentsAreRefusedByName) {
  const std::string good = report_json(example_report());
  expect_refused("", "not JSON");
  expect_refused("[]", "not a report of Pith");
  expect_refused("{}", "not a report of Pith");
  expect_refused(R"({"schema_version": 0})", "not a report of Pith");
  expect_refused(R"({"schema_version": 1})", "'tool' is missing");
  expect_refused(R"({"schema_version": 2, "new": 1})",
                 "'schema_version' is 2, but this Pith reads up to 1",
                 StatusCode::kUnsupported);
  expect_refused(with(good, "\"tool\"", "\"tule\""), "unknown key 'tule'");
  expect_refused(with(good, "\"tool\": \"", "\"tool\": 1, \"recipe\": \""), "twice");
  expect_refused(with(good, "\"seconds\": 0.25", "\"seconds\": -1"),
                 "'seconds' is not a finite number of at least 0");
  expect_refused(with(good, "\"threads\":2", "\"threads\":2147483648"),
                 "environment: 'threads' is not a whole number up to 2147483647");
  expect_refused(with(good, "\"bytes\":12000", "\"bytes\":1e3"),
                 "source: 'bytes' is not a whole number");
  expect_refused(with(good, "\"action\":\"kept\"", "\"action\":\"lost\""),
                 "tensors[2]: 'action' is not one of kept");
  expect_refused(with(good, "\"shape\":[64,32]", "\"shape\":[64,-32]"),
                 "tensors[0]: 'shape'");
  expect_refused(with(good, "\"shape\":[64,32]", "\"shape\":[4294967296,4294967296]"),
                 "tensors[0]: 'shape' is not one of a tensor that could be stored");
  expect_refused(with(good, "\"zeros_after\":1024", "\"zeros_after\":2049"),
                 "tensors[0]: error: 'zeros_after' is not a whole number up to 2048");
  expect_refused(with(good, "\"max_index\":70", "\"max_index\":2048"),
                 "tensors[0]: error: 'max_index'");
  expect_refused(with(good, "\"counts\":[1,20", "\"counts\":[-1,20"),
                 "tensors[0]: weights: 'counts'");
  expect_refused(with(good, "\"counts\":[1,20", "\"counts\":[9007199254740992,20"),
                 "all counts together are more than");
  expect_refused(with(good, "\"low\":-1.5", "\"low\":2"), "'high' is not at least 'low'");
  expect_refused(with(good, "004080ff0901", "004080ff090"), "nonzeros: 'density'");
  expect_refused(with(good, "004080ff0901", "004080ff09<1"), "nonzeros: 'density'");
  expect_refused(with(good, "\"rows\":2", "\"rows\":33"), "up to 32");
  // Numbers that are allowed one by one, but not together.
  const std::string huge = "\"shape\":[9007199254740992]";
  expect_refused(with(with(good, "\"shape\":[64,32]", huge), "\"shape\":[32,8]", huge),
                 "all elements together are more than 9007199254740992");
}

TEST(ReportJson, FilesAreNamedInMessages) {
  const TempFolder folder;
  EXPECT_EQ(read_report(folder.path() / "no.json").error().code(), StatusCode::kNotFound);
  std::ofstream(folder.path() / "bad.json") << "{";
  const Status status = read_report(folder.path() / "bad.json").error();
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_NE(status.message().find("bad.json: "), std::string::npos) << status.message();
}

TEST(WriteReport, TheEndingSaysWhich) {
  const TempFolder folder;
  const Report report = example_report();
  for (const auto& [name, text] : {std::pair{"r.json", report_json(report)},
                                   {"r.md", report_markdown(report)},
                                   {"r.html", report_html(report)},
                                   {"r.txt", report_summary(report)}}) {
    const std::filesystem::path path = folder.path() / name;
    ASSERT_TRUE(write_report(report, path).ok());
    std::ifstream file(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
    EXPECT_EQ(check_report_path(path).code(), StatusCode::kAlreadyExists);
    EXPECT_TRUE(check_report_path(path, true).ok());
    EXPECT_EQ(write_report(report, path).code(), StatusCode::kAlreadyExists);
    EXPECT_TRUE(write_report(report, path, true).ok());
  }
  EXPECT_EQ(read_report(folder.path() / "r.json").value(), report);
  const auto new_path = folder.path() / "new.html";
  EXPECT_TRUE(check_report_path(new_path).ok());
  EXPECT_FALSE(std::filesystem::exists(new_path));
  EXPECT_EQ(check_report_path(folder.path() / "none" / "r.html").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(check_report_path(folder.path() / "r.pdf").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(write_report(report, folder.path() / "r.pdf").code(),
            StatusCode::kInvalidArgument);
}

TEST(ReportHtml, NothingInAReportIsMarkup) {
  Report report = example_report();
  report.output.path = "</title><script>alert(1)</script>";
  report.recipe = "<!-- <script> ]]> --> & \xe2\x80\xa8";
  std::string page = report_html(report);
  EXPECT_EQ(page.find("<b>&'"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<!-- <script>"), std::string::npos);
  EXPECT_NE(page.find("&lt;/title&gt;&lt;script&gt;alert(1)"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script\\u003e\\u003cb\\u003e\\u0026'"), std::string::npos);
  // As many scripts end as the page has: one of data and one of program.
  std::size_t ends = 0;
  for (std::size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) {
    ++ends;
  }
  EXPECT_EQ(ends, 2U);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  // The name of SVG is no address.
  page = with(page, "http://www.w3.org/2000/svg", "");
  for (const char* loads : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
}

TEST(ReportHtml, DataIsTheJsonOfTheReport) {
  const Report report = example_report();
  const std::string page = report_html(report);
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin);
  ASSERT_NE(at, std::string::npos);
  const std::size_t from = at + begin.size();
  const std::string data = page.substr(from, page.find("</script>", from) - from);
  EXPECT_EQ(parse_report(data).value(), report);
}

}  // namespace
}  // namespace pith

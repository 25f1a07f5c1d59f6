#include "src/quantize/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "src/io/plain.h"
#include "src/io/safetensors_header.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::shape_of;

TensorRecord quantized(std::string name, const Scheme& scheme, const Shape& of) {
  TensorRecord record;
  record.name = std::move(name);
  record.kind = StoredKind::kQuantized;
  record.source = "BF16";
  record.shape = of;
  record.scheme = scheme;
  return record;
}

// All required parts, under the usual names.
TensorRecord with_parts(TensorRecord record) {
  const auto parts = required_parts(record);
  EXPECT_TRUE(parts) << parts.error().message();
  if (!parts) return record;
  for (const PartLayout& part : *parts) {
    record.parts.push_back(
        {part.role, record.name + std::string(part_suffix(part.role)), 0x12345678});
  }
  return record;
}

std::vector<TensorInfo> stored(const Manifest& manifest) {
  std::vector<TensorInfo> infos;
  for (const TensorRecord& record : manifest.tensors) {
    std::vector<PartLayout> layouts = required_parts(record).value();
    if (record.part(PartRole::kColumnScale) != nullptr) {
      layouts.push_back(column_scale_layout(record).value());
    }
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      TensorInfo info;
      info.name = record.parts[i].name;
      info.encoding =
          plain_encoding(layouts[i].dtype, safetensors_name(layouts[i].dtype));
      info.shape = layouts[i].shape;
      infos.push_back(std::move(info));
    }
  }
  return infos;
}

Manifest sample() {
  Manifest manifest;
  manifest.writer = "pith 0.1.0";
  manifest.recipe = "version: 1\nrules: \"\u00e4\"";
  TensorRecord kept;
  kept.name = "norm";
  kept.source = "F32";
  kept.shape = shape_of({7});
  kept.dtype = DType::kF32;
  manifest.tensors.push_back(with_parts(kept));
  TensorRecord w = quantized("w", Scheme::int8_rows(), shape_of({4, 16}));
  w.error =
      ErrorFigures{.count = 64, .sum_error = 0.1, .max_error = 1e-9, .max_index = 3};
  w = with_parts(w);
  w.parts.push_back({PartRole::kColumnScale, "w.elsewhere", std::nullopt});
  manifest.tensors.push_back(w);
  manifest.tensors.push_back(
      with_parts(quantized("w4", Scheme::w4a16_asymmetric(8), shape_of({3, 16}))));
  TensorRecord sparse;
  sparse.name = "s";
  sparse.kind = StoredKind::kSparse;
  sparse.source = "F16";
  sparse.shape = shape_of({3, 9});
  sparse.dtype = DType::kF16;
  sparse.kept = 5;
  manifest.tensors.push_back(with_parts(sparse));
  TensorRecord alias;
  alias.name = "tied";
  alias.kind = StoredKind::kAlias;
  alias.source = "BF16";
  alias.shape = shape_of({4, 16});
  alias.alias_of = "w";
  manifest.tensors.push_back(alias);
  TensorRecord dropped;
  dropped.name = "gone";
  dropped.kind = StoredKind::kDropped;
  dropped.source = "I64";
  dropped.shape = shape_of({});
  manifest.tensors.push_back(dropped);
  return manifest;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  if (at == std::string::npos) return std::string(text);
  return fmt::format("{}{}{}", text.substr(0, at), to, text.substr(at + from.size()));
}

TEST(Manifest, TextAndBack) {
  const Manifest manifest = sample();
  const auto text = manifest_to_json(manifest);
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_TRUE(text->starts_with(
      R"({"schema":1,"convention":"pith","writer":"pith 0.1.0","recipe":"version: 1\n)"))
      << *text;
  EXPECT_NE(text->find(R"({"name":"w","kind":"quantized","source":"BF16","shape":[4,16],)"
                       R"("scheme":0,"parts":{"codes":{"xxh3":"0000000012345678"},)"
                       R"("scale":{"xxh3":"0000000012345678"},)"
                       R"("column_scale":{"name":"w.elsewhere"}},"error":{"count":64,)"),
            std::string::npos)
      << *text;
  const auto back = manifest_from_json(*text);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, manifest);
  EXPECT_TRUE(check_manifests({&*back, 1}, stored(manifest)).ok());
}

TEST(Manifest, FiguresHaveTwelveDigitsAndInfinityIsNull) {
  Manifest manifest = sample();
  ErrorFigures& figures = *manifest.tensors[1].error;
  figures.sum_error = 1.0 / 3;
  figures.max_error = std::numeric_limits<double>::infinity();
  const std::string text = manifest_to_json(manifest).value();
  EXPECT_NE(text.find(R"("sum_error":0.333333333333,)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("max_error":null,)"), std::string::npos);
  const auto back = manifest_from_json(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->tensors[1].error->max_error, figures.max_error);
  figures = widest_figures();
  EXPECT_GE(manifest_to_json(manifest)->size(), text.size());
}

TEST(Manifest, LayoutsOfSchemes) {
  const auto layouts = [](const Scheme& scheme, const Shape& of) {
    std::string out;
    const auto parts = required_parts(quantized("w", scheme, of));
    if (!parts) return parts.error().message();
    for (const PartLayout& part : *parts) {
      out += fmt::format("{} {} {}; ", to_string(part.role), to_string(part.dtype),
                         part.shape.to_string());
    }
    return out;
  };
  EXPECT_EQ(layouts(Scheme::int8_tensor(), shape_of({2, 3, 5})),
            "codes i8 [2, 3, 5]; scale f32 [1]; ");
  EXPECT_EQ(layouts(Scheme::int8_rows(), shape_of({2, 3, 5})),
            "codes i8 [2, 3, 5]; scale f32 [6, 1]; ");
  EXPECT_EQ(layouts(Scheme::int4_rows(), shape_of({2, 3, 5})),
            "codes u8 [2, 3, 3]; scale f32 [6, 1]; ");
  EXPECT_EQ(layouts(Scheme::int4_blocks(4), shape_of({2, 8})),
            "codes u8 [2, 4]; scale f16 [2, 2]; ");
  EXPECT_EQ(layouts(Scheme::int8_flat_blocks(4), shape_of({2, 5})),
            "codes i8 [2, 5]; scale f16 [3]; ");
  EXPECT_EQ(layouts(Scheme::q4_0(), shape_of({2, 64})), "codes u8 [2, 36]; ");
  EXPECT_EQ(layouts(Scheme::w4a16_asymmetric(8), shape_of({2, 16})),
            "codes u8 [2, 8]; scale bf16 [2, 2]; zero_point i8 [2, 2]; ");
  EXPECT_NE(layouts(Scheme::int4_blocks(4), shape_of({2, 5})).find("block"),
            std::string::npos);
}

TEST(Manifest, LayoutsOfSparseTensors) {
  TensorRecord record = quantized("w", Scheme::int4_rows(), shape_of({3, 9}));
  record.kind = StoredKind::kSparse;
  record.kept = 5;
  const auto parts = required_parts(record);
  ASSERT_TRUE(parts) << parts.error().message();
  ASSERT_EQ(parts->size(), 4u);
  EXPECT_EQ((*parts)[0].shape, shape_of({3}));
  EXPECT_EQ((*parts)[2].role, PartRole::kMask);
  EXPECT_EQ((*parts)[2].shape, shape_of({3, 2}));
  EXPECT_EQ((*parts)[3].dtype, DType::kI64);
  EXPECT_EQ((*parts)[3].shape, shape_of({3}));
  record.kept = 28;
  EXPECT_FALSE(required_parts(record));
  record.kept = -1;
  EXPECT_FALSE(required_parts(record));
}

TEST(Manifest, WrongTextIsRefusedWithItsPlace) {
  const std::string good = manifest_to_json(sample()).value();
  const auto refusal = [&](std::string_view from, std::string_view to) {
    const auto manifest = manifest_from_json(replaced(good, from, to));
    if (manifest) return std::string("accepted");
    EXPECT_EQ(manifest.error().code(), StatusCode::kCorrupt);
    return manifest.error().message();
  };
  EXPECT_EQ(refusal(R"("writer":"pith 0.1.0",)", ""), "manifest: 'writer' is missing");
  EXPECT_EQ(refusal(R"("writer":"pith 0.1.0")", R"("writer":1)"),
            "manifest: 'writer' must be a string");
  EXPECT_EQ(refusal(R"("writer":)", R"("extra":1,"writer":)"),
            "manifest: it has an unknown key");
  EXPECT_EQ(refusal(R"("writer":)", R"("writer":"","writer":)"),
            "manifest: 'writer' is given twice");
  EXPECT_EQ(refusal(R"({"schema":1,)", R"({)"), "manifest: 'schema' must come first");
  EXPECT_EQ(refusal(R"("schema":1)", R"("schema":0)"),
            "manifest: 'schema' must be a number above 0");
  EXPECT_EQ(refusal(R"("schema":1)", R"("schema":"1")"),
            "manifest: 'schema' must be a number above 0");
  EXPECT_EQ(refusal(R"("convention":"pith")", R"("convention":"other")"),
            "manifest: 'convention' is 'other', which is not known");
  EXPECT_EQ(refusal(R"("bits":8)", R"("bits":3)").substr(0, 19), "manifest: scheme 0:");
  EXPECT_EQ(refusal(R"("bits":8)", R"("bits":-8)"),
            "manifest: scheme 0: 'bits' must be a whole number from 0 to 2^63-1");
  EXPECT_EQ(refusal(R"("group":"row")", R"("group":"rows")"),
            "manifest: scheme 0: 'group' is 'rows', which is not known");
  EXPECT_EQ(refusal(R"("symmetric":true)", R"("symmetric":1)"),
            "manifest: scheme 0: 'symmetric' must be true or false");
  EXPECT_EQ(refusal(R"("kind":"quantized")", R"("kind":"quantised")"),
            "manifest: tensor 'w': 'kind' is 'quantised', which is not known");
  EXPECT_EQ(refusal(R"("shape":[4,16])", R"("shape":[4,-16])"),
            "manifest: tensor 'w': 'shape' must be a whole number from 0 to 2^63-1");
  EXPECT_EQ(refusal(R"("shape":[4,16])", R"("shape":4)"),
            "manifest: tensor 'w': 'shape' must be an array of at most 64 numbers");
  EXPECT_NE(refusal(R"("shape":[4,16])", R"("shape":[4294967296,4294967296])")
                .find("exceeds 2^63-1"),
            std::string::npos);
  EXPECT_EQ(refusal(R"("scheme":0)", R"("scheme":2)"),
            "manifest: tensor 'w': 'scheme' is 2, but there are 2");
  EXPECT_EQ(refusal(R"("xxh3":"0000000012345678")", R"("xxh3":"000000001234567")"),
            "manifest: tensor 'norm': 'xxh3' must be 16 digits of 0-9 and a-f");
  EXPECT_EQ(refusal(R"("xxh3":"0000000012345678")", R"("xxh3":"000000001234567F")"),
            "manifest: tensor 'norm': 'xxh3' must be 16 digits of 0-9 and a-f");
  EXPECT_EQ(refusal(R"("codes":{)", R"("code":{)"),
            "manifest: tensor 'w': it has an unknown key");
  EXPECT_EQ(refusal(R"("name":"w.elsewhere")", R"("name":null)"),
            "manifest: tensor 'w': 'name' must be a string");
  EXPECT_EQ(refusal(R"("count":64,)", ""),
            "manifest: tensor 'w': error: 'count' is missing");
  EXPECT_EQ(refusal(R"("dtype":"f32")", R"("dtype":"F32")"),
            "manifest: tensor 'norm': 'dtype' is no type");
  EXPECT_EQ(refusal(R"("kept":5,)", ""), "manifest: tensor 's': 'kept' is missing");
  EXPECT_EQ(refusal(R"("kind":"kept")", R"("kind":"kept","kind":"kept")"),
            "manifest: key 'kind' is given twice");
  EXPECT_EQ(refusal(R"("tensors":[{)", R"("tensors":[1,{)"),
            "manifest: tensor '': an object was expected");
  EXPECT_FALSE(manifest_from_json("[]"));
  EXPECT_FALSE(manifest_from_json("{}"));
  EXPECT_FALSE(manifest_from_json(R"({"schema":1,"tensors":[]})"));
  EXPECT_FALSE(manifest_from_json(R"({"schema":1,"schemes":[],"tensors":{}})"));
  EXPECT_FALSE(
      manifest_from_json(R"({"schema":1,"schemes":[],"tensors":[],"tensors":[]})"));
  EXPECT_EQ(
      manifest_from_json(replaced(good, R"("schema":1)", R"("schema":2)")).error().code(),
      StatusCode::kUnsupported);
}

TEST(Manifest, ChecksAgainstTheFile) {
  const Manifest good = sample();
  const std::vector<TensorInfo> infos = stored(good);
  const auto check = [&](const Manifest& manifest, const std::vector<TensorInfo>& with) {
    const Status status = check_manifests({&manifest, 1}, with);
    return status.ok() ? "accepted" : status.message();
  };
  EXPECT_EQ(check(good, infos), "accepted");

  std::vector<TensorInfo> fewer = infos;
  fewer.erase(fewer.begin() + 2);
  EXPECT_EQ(check(good, fewer),
            "manifest: tensor 'w': its part 'w.scale' is not in the "
            "file, or the part of another tensor too");
  std::vector<TensorInfo> more = infos;
  more.push_back(infos[0]);
  more.back().name = "stranger";
  EXPECT_EQ(check(good, more), "manifest: nothing is said of tensor 'stranger'");
  std::vector<TensorInfo> other = infos;
  other[1].shape = shape_of({16, 4});
  EXPECT_EQ(check(good, other),
            "manifest: tensor 'w': its part 'w' is I8 [16, 4], expected "
            "i8 [4, 16]");
  other = infos;
  other[1].encoding = plain_encoding(DType::kU8, "U8");
  EXPECT_NE(check(good, other), "accepted");

  Manifest manifest = good;
  manifest.tensors.push_back(manifest.tensors[0]);
  EXPECT_EQ(check(manifest, infos), "manifest: tensor 'norm' is given twice");
  manifest = good;
  manifest.tensors[0].parts[0].name = manifest.tensors[1].name;
  EXPECT_NE(check(manifest, infos), "accepted");
  manifest = good;
  manifest.tensors[1].parts.erase(manifest.tensors[1].parts.begin());
  EXPECT_EQ(check(manifest, infos), "manifest: tensor 'w': it has 2 parts, expected 3");
  manifest = good;
  manifest.tensors[1].parts[1].role = PartRole::kMask;
  EXPECT_EQ(check(manifest, infos),
            "manifest: tensor 'w': part 'mask' found, expected 'scale'");
  manifest = good;
  manifest.tensors[1].scheme.reset();
  EXPECT_EQ(check(manifest, infos), "manifest: tensor 'w': the scheme is missing");
  manifest = good;
  manifest.tensors[0].dtype.reset();
  EXPECT_EQ(check(manifest, infos), "manifest: tensor 'norm': the dtype is missing");
  for (const char* target : {"tied", "gone", "nothing", "norm"}) {
    manifest = good;
    manifest.tensors[4].alias_of = target;
    EXPECT_NE(check(manifest, infos).find("which is not stored with its shape"),
              std::string::npos)
        << target;
  }
  manifest = good;
  manifest.tensors[5].parts.push_back({PartRole::kColumnScale, "gone.column_scale", {}});
  EXPECT_NE(check(manifest, infos), "accepted");
}

TEST(Manifest, TheOtherConventionOnlyClaimsItsParts) {
  Manifest manifest = sample();
  manifest.convention = Convention::kCompressedTensors;
  manifest.tensors.resize(2);
  manifest.tensors[1].parts.push_back({PartRole::kShape, "w_shape", 1});
  std::vector<TensorInfo> infos;
  for (const char* name : {"norm", "w", "w.scale", "w.elsewhere", "w_shape"}) {
    infos.emplace_back();
    infos.back().name = name;
  }
  EXPECT_TRUE(check_manifests({&manifest, 1}, infos).ok());
  const auto back = manifest_from_json(manifest_to_json(manifest).value());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, manifest);
  infos.pop_back();
  EXPECT_FALSE(check_manifests({&manifest, 1}, infos).ok());
  const std::vector<Manifest> both = {manifest, Manifest()};
  EXPECT_FALSE(check_manifests(both, infos).ok());
}

TEST(Manifest, NamesMustBeText) {
  Manifest manifest = sample();
  manifest.tensors[0].name = "\xff";
  EXPECT_EQ(manifest_to_json(manifest).error().code(), StatusCode::kInvalidArgument);
}

// Whatever the fields, what is written is read back the same.
RC_GTEST_PROP(Manifest, RoundTrip, ()) {
  const auto text = [] {
    return *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
  };
  Scheme scheme = *rc::gen::element(Scheme::int8_tensor(), Scheme::int8_rows(),
                                    Scheme::int8_flat_blocks(32), Scheme::int4_tensor(),
                                    Scheme::w8a8(), Scheme::w4a16(), Scheme::q4_0());
  if (*rc::gen::arbitrary<bool>() && scheme.layout == Layout::kSplit) {
    scheme.rule = ScaleRule::kGiven;
    scheme.given_scale = static_cast<float>(*rc::gen::inRange(1, 1 << 20)) / 3;
  }
  Manifest manifest;
  manifest.writer = text();
  manifest.recipe = text();
  TensorRecord record =
      quantized(text(), scheme, shape_of({*rc::gen::inRange(0, 9), 256}));
  RC_PRE(scheme.validate(record.shape).ok());
  record = with_parts(record);
  record.parts.back().name = text();
  record.parts.back().name += "x";
  record.parts.back().checksum = *rc::gen::arbitrary<std::uint64_t>();
  manifest.tensors = {record};
  const auto json = manifest_to_json(manifest);
  RC_ASSERT(static_cast<bool>(json));
  const auto back = manifest_from_json(*json);
  RC_ASSERT(static_cast<bool>(back));
  RC_ASSERT(*back == manifest);
  RC_ASSERT(manifest_to_json(*back).value() == *json);
}

}  // namespace
}  // namespace pith

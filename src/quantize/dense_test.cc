// Pith's own files, and samples of all conventions.
#include "pith/quantize/dense.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pith/tensor/half.h"
#include "src/io/safetensors_header.h"
#include "src/quantize/manifest.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::SafetensorsBuilder;
using testing::TempFolder;

TEST(Dense, SamplesOfCompressedTensors) {
  testing::check_samples("compressed_tensors", open_dense);
}
TEST(Dense, SamplesOfBitsandbytes) { testing::check_samples("bitsandbytes", open_dense); }
TEST(Dense, PlainSamplesPassThrough) {
  for (const char* folder : {"safetensors", "sharded", "gguf", "numpy", "pytorch"}) {
    testing::check_samples(folder, open_dense);
  }
}

// A record with random parts, and the values that these mean, element by element.
struct Made {
  TensorRecord record;
  std::vector<ByteBuilder> parts;
  std::vector<float> values;
};

// Group of an element, by the definition.
std::int64_t group_of(const Scheme& s, const Shape& shape, std::int64_t element) {
  switch (s.group) {
    case Group::kTensor:
      return 0;
    case Group::kRow:
      return element / shape.cols();
    default:
      return element / s.block_size;  // blocks divide rows
  }
}

class Maker {
 public:
  explicit Maker(std::uint32_t seed) : random_(seed) {}

  Made make(const std::string& name, const Scheme& scheme, const Shape& shape,
            bool sparse, bool factors) {
    Made made;
    made.record.name = name;
    made.record.kind = sparse ? StoredKind::kSparse : StoredKind::kQuantized;
    made.record.source = "F32";
    made.record.shape = shape;
    made.record.scheme = scheme;
    std::vector<bool> kept(static_cast<std::size_t>(shape.elements()), true);
    if (sparse) {
      for (auto&& bit : kept) bit = below(3) == 0;
      made.record.kept = std::count(kept.begin(), kept.end(), true);
    }
    std::vector<int> codes;
    std::vector<float> scales;
    std::vector<int> zeros;
    for (std::int64_t g = 0; g < scheme.groups(shape); ++g) {
      scales.push_back(static_cast<float>(1 + below(255)) / 64);  // exact in every type
      zeros.push_back(
          scheme.symmetric ? 0 : below(1 << scheme.bits) - (1 << (scheme.bits - 1)));
    }
    std::vector<float> column(static_cast<std::size_t>(shape.cols()), 1.0F);
    if (factors) {
      for (float& factor : column) factor = static_cast<float>(1 + below(100)) / 3;
    }
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const int code = below(1 << scheme.bits) - (1 << (scheme.bits - 1));
      const auto g = static_cast<std::size_t>(group_of(scheme, shape, i));
      codes.push_back(code);
      const float value = static_cast<float>(code - zeros[g]) * scales[g];
      made.values.push_back(
          kept[static_cast<std::size_t>(i)]
              ? (factors ? value * column[static_cast<std::size_t>(i % shape.cols())]
                         : value)
              : 0.0F);
    }
    const auto layouts = required_parts(made.record);
    EXPECT_TRUE(layouts) << layouts.error().message();
    for (const PartLayout& layout : *layouts) {
      made.record.parts.push_back(
          {layout.role, name + std::string(part_suffix(layout.role)), std::nullopt});
      made.parts.push_back(part(layout.role, made.record, codes, scales, zeros, kept));
    }
    if (factors) {
      made.record.parts.push_back({PartRole::kColumnScale, name + ".column_scale", {}});
      made.parts.emplace_back();
      for (const float factor : column) made.parts.back().f32(factor);
    }
    return made;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  static ByteBuilder number(DType dtype, float value) {
    if (dtype == DType::kF16) return ByteBuilder().u16(f32_to_f16(value));
    if (dtype == DType::kBF16) return ByteBuilder().u16(f32_to_bf16(value));
    return ByteBuilder().f32(value);
  }

  static ByteBuilder part(PartRole role, const TensorRecord& record,
                          const std::vector<int>& codes, const std::vector<float>& scales,
                          const std::vector<int>& zeros, const std::vector<bool>& kept) {
    const Scheme& scheme = *record.scheme;
    const std::int64_t cols = record.shape.cols();
    ByteBuilder out;
    switch (role) {
      case PartRole::kScale:
        for (const float scale : scales) out.text(number(scheme.scale_type, scale).str());
        break;
      case PartRole::kZeroPoint:
        for (const int zero : zeros) out.u8(static_cast<std::uint64_t>(zero));
        break;
      case PartRole::kMask:
        for (std::int64_t r = 0; r < record.shape.rows(); ++r) {
          for (std::int64_t c = 0; c < cols; c += 8) {
            unsigned byte = 0;
            for (std::int64_t i = c; i < std::min(c + 8, cols); ++i) {
              if (kept[static_cast<std::size_t>(r * cols + i)]) byte |= 1u << (i - c);
            }
            out.u8(byte);
          }
        }
        break;
      case PartRole::kRowOffsets: {
        std::uint64_t count = 0;
        for (std::size_t i = 0; i < kept.size(); ++i) {
          if (i % static_cast<std::size_t>(cols) == 0) out.u64(count);
          count += kept[i];
        }
        break;
      }
      default:
        return code_part(record, codes, scales, kept);
    }
    return out;
  }

  static ByteBuilder code_part(const TensorRecord& record, const std::vector<int>& codes,
                               const std::vector<float>& scales,
                               const std::vector<bool>& kept) {
    const Scheme& scheme = *record.scheme;
    ByteBuilder out;
    if (scheme.layout == Layout::kBlocks) {
      for (std::size_t b = 0; b < codes.size() / 32; ++b) {
        out.u16(f32_to_f16(scales[b]));
        for (std::size_t i = 0; i < (scheme.bits == 8 ? 32u : 16u); ++i) {
          const int low = codes[32 * b + i];
          out.u8(scheme.bits == 8 ? static_cast<std::uint64_t>(low)
                                  : static_cast<std::uint64_t>(
                                        (low + 8) | (codes[32 * b + i + 16] + 8) << 4));
        }
      }
      return out;
    }
    std::vector<int> row;
    const auto flush = [&] {
      for (std::size_t i = 0; i < row.size(); i += scheme.bits == 8 ? 1 : 2) {
        const int next = scheme.bits == 4 && i + 1 < row.size() ? row[i + 1] : 0;
        out.u8(static_cast<std::uint64_t>(scheme.bits == 8 ? row[i]
                                                           : (row[i] & 15) | next << 4));
      }
      row.clear();
    };
    const bool by_rows =
        scheme.group != Group::kFlatBlock && record.kind != StoredKind::kSparse;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (by_rows && i % static_cast<std::size_t>(record.shape.cols()) == 0) flush();
      if (kept[i]) row.push_back(codes[i]);
    }
    flush();
    return out;
  }

  std::mt19937 random_;
};

void add_parts(SafetensorsBuilder& file, const Made& made) {
  std::vector<PartLayout> layouts = required_parts(made.record).value();
  if (made.record.part(PartRole::kColumnScale) != nullptr) {
    layouts.push_back(column_scale_layout(made.record).value());
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto extents = layouts[i].shape.extents();
    file.add(made.record.parts[i].name, safetensors_name(layouts[i].dtype),
             {extents.begin(), extents.end()}, made.parts[i]);
  }
}

std::filesystem::path write(const TempFolder& folder, SafetensorsBuilder file,
                            const std::vector<TensorRecord>& records) {
  Manifest manifest;
  manifest.tensors = records;
  file.metadata("format", "pt");
  file.metadata("pith", manifest_to_json(manifest).value());
  return folder.write("m.safetensors", file.str());
}

std::vector<Scheme> schemes() {
  Scheme asymmetric = Scheme::int8_blocks(8);
  asymmetric.symmetric = false;
  Scheme flat4 = Scheme::int8_flat_blocks(6);
  flat4.bits = 4;
  flat4.coding = Coding::kStored;
  return {Scheme::int8_tensor(),
          Scheme::int8_rows(),
          Scheme::int8_blocks(8),
          Scheme::int8_flat_blocks(5),
          Scheme::int4_tensor(),
          Scheme::int4_rows(),
          Scheme::int4_blocks(4),
          Scheme::q8_0(),
          Scheme::q4_0(),
          Scheme::w8a8(),
          Scheme::w4a16(8),
          Scheme::w4a16_asymmetric(8),
          asymmetric,
          flat4,
          Scheme::int8_flat_blocks(100'000)};
}

std::vector<float> decoded(const StoredCodes& stored) {
  std::vector<float> values(static_cast<std::size_t>(stored.tensor.elements()));
  EXPECT_TRUE(dequantize(stored.tensor, values).ok());
  const std::vector<float>& scale = stored.column_scale;
  if (scale.empty()) return values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scale[i % scale.size()];
  return values;
}

// Every scheme, dense and sparse, with and without factors, read in pieces of every kind.
TEST(DensePith, EverySchemeReadsBackByItsDefinition) {
  std::uint32_t seed = 1;
  for (const Scheme& scheme : schemes()) {
    for (const Shape& shape : {Shape::make({5, 64}).value(), Shape::make({3, 7}).value(),
                               Shape::make({2, 3, 32}).value(), Shape::make({1}).value(),
                               Shape::make({700, 192}).value()}) {
      if (!scheme.validate(shape).ok()) continue;
      for (const bool sparse : {false, true}) {
        if (sparse && scheme.layout == Layout::kBlocks) continue;
        SCOPED_TRACE(scheme.to_string() + " " + shape.to_string() +
                     (sparse ? " sparse" : ""));
        const bool factors = seed % 3 == 0;
        const Made made = Maker(seed++).make("w", scheme, shape, sparse, factors);
        const TempFolder folder;
        SafetensorsBuilder file;
        add_parts(file, made);
        const auto model = open_dense(write(folder, file, {made.record}));
        ASSERT_TRUE(model) << model.error().message();
        ASSERT_EQ((*model)->tensors().size(), 1u);
        EXPECT_EQ((*model)->tensors()[0].shape, shape);
        ASSERT_EQ(testing::read_values(**model, 0), made.values);
        const auto stored = read_codes(**model, 0);
        ASSERT_TRUE(stored) << stored.error().message();
        ASSERT_EQ(stored->has_value(), !sparse || scheme.symmetric);
        if (*stored) {
          ASSERT_EQ(decoded(**stored), made.values);
        }
        const std::int64_t cols = shape.cols();
        for (std::int64_t first = 0; first < shape.rows();
             first += 1 + shape.rows() / 5) {
          const std::int64_t rows = std::min<std::int64_t>(shape.rows() - first, 3);
          std::vector<float> some(static_cast<std::size_t>(rows * cols));
          ASSERT_TRUE((*model)->read_rows(0, first, rows, some).ok());
          EXPECT_TRUE(
              std::equal(some.begin(), some.end(), made.values.begin() + first * cols))
              << first;
        }
      }
    }
  }
}

TEST(DensePith, KeptConvertedAliasesAndDropped) {
  TensorRecord kept;
  kept.name = "kept";
  kept.source = "F32";
  kept.shape = Shape::make({2}).value();
  kept.dtype = DType::kF32;
  kept.parts = {{PartRole::kValues, "kept", {}}};
  TensorRecord converted = kept;
  converted.name = "converted";
  converted.kind = StoredKind::kConverted;
  converted.dtype = DType::kF16;
  converted.parts = {{PartRole::kValues, "stored elsewhere", {}},
                     {PartRole::kColumnScale, "converted.column_scale", {}}};
  const Made made = Maker(7).make("w", Scheme::int8_rows(), kept.shape, false, false);
  TensorRecord alias;
  alias.name = "tied";
  alias.kind = StoredKind::kAlias;
  alias.source = "F32";
  alias.shape = kept.shape;
  alias.alias_of = "kept";
  TensorRecord other = alias;
  other.name = "tied w";
  other.alias_of = "w";
  TensorRecord dropped = alias;
  dropped.name = "gone";
  dropped.kind = StoredKind::kDropped;
  dropped.alias_of = "";
  SafetensorsBuilder file;
  file.add("kept", "F32", {2}, ByteBuilder().f32(1).f32(2));
  file.add("stored elsewhere", "F16", {2}, ByteBuilder().u16(0x3c00).u16(0x4000));
  file.add("converted.column_scale", "F32", {2}, ByteBuilder().f32(3).f32(5));
  add_parts(file, made);
  const TempFolder folder;
  const auto model = open_dense(
      write(folder, file, {kept, converted, made.record, alias, other, dropped}));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->tensors().size(), 5u);
  const auto values = [&](std::string_view name) {
    return testing::read_values(**model, (*model)->find(name).value());
  };
  EXPECT_EQ(values("kept"), (std::vector<float>{1, 2}));
  EXPECT_EQ(values("tied"), (std::vector<float>{1, 2}));
  EXPECT_EQ(values("converted"), (std::vector<float>{3, 10}));
  EXPECT_EQ(values("w"), made.values);
  EXPECT_EQ(values("tied w"), made.values);
  EXPECT_FALSE((*model)->find("gone"));
  EXPECT_EQ((*model)->tensors()[*(*model)->find("kept")].encoding.name, "F32");
  std::vector<std::byte> bytes(8);
  EXPECT_TRUE((*model)->read_bytes(*(*model)->find("tied"), 0, bytes).ok());
}

class DensePithRefusal : public ::testing::Test {
 protected:
  DensePithRefusal()
      : sparse_(Maker(3).make("s", Scheme::int8_rows(), Shape::make({3, 9}).value(), true,
                              true)) {
    add_parts(file_, sparse_);
  }
  std::string refusal() {
    const TempFolder folder;
    const auto path = write(folder, file_, {sparse_.record});
    const Status status = testing::read_everything(path, open_dense);
    if (status.ok()) return "accepted";
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_TRUE(status.message().starts_with(path.string())) << status.message();
    return status.message();
  }
  static bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }

  Made sparse_;
  SafetensorsBuilder file_;
};

TEST_F(DensePithRefusal, ManifestsThatDoNotFitTheFile) {
  EXPECT_EQ(refusal(), "accepted");
  file_.add("stranger", "F32", {1}, ByteBuilder().f32(1));
  EXPECT_TRUE(has(refusal(), "nothing is said of tensor 'stranger'"));
  file_.remove("stranger").remove("s.mask");
  EXPECT_TRUE(has(refusal(), "its part 's.mask' is not in the file"));
}

TEST_F(DensePithRefusal, ScalesAndFactorsThatAreNotFinite) {
  file_.add("s.scale", "F32", {3, 1}, ByteBuilder().f32(1).f32(INFINITY).f32(1));
  EXPECT_TRUE(has(refusal(), "'s.scale': scale 1 is inf"));
  add_parts(file_, sparse_);
  file_.add("s.column_scale", "F32", {9}, ByteBuilder().zeros(32).f32(NAN));
  EXPECT_TRUE(has(refusal(), "'s.column_scale': a factor is not finite"));
}

TEST_F(DensePithRefusal, MasksAndOffsetsThatContradictEachOther) {
  std::string mask = sparse_.parts[2].str();
  mask[2] = static_cast<char>(mask[2] ^ 1);
  file_.add("s.mask", "U8", {3, 2}, ByteBuilder().text(mask));
  EXPECT_TRUE(has(refusal(), "belong to row 1, but its mask has"));
  mask[2] = static_cast<char>(mask[2] ^ 1);
  mask[3] = static_cast<char>(mask[3] | 0x80);
  file_.add("s.mask", "U8", {3, 2}, ByteBuilder().text(mask));
  EXPECT_TRUE(has(refusal(), "row 1 has bits beyond its last column"));
  add_parts(file_, sparse_);
  for (const std::uint64_t bad : {std::uint64_t{1}, UINT64_MAX, std::uint64_t{1} << 62}) {
    std::string offsets = sparse_.parts[3].str();
    std::memcpy(offsets.data(), &bad, sizeof(bad));
    file_.add("s.row_offsets", "I64", {3}, ByteBuilder().text(offsets));
    EXPECT_TRUE(has(refusal(), "belong to row 0")) << bad;
  }
}

TEST(DensePith, BlocksWithAScaleThatIsNotFinite) {
  Made made =
      Maker(5).make("w", Scheme::q8_0(), Shape::make({2, 32}).value(), false, false);
  std::string blocks = made.parts[0].str();
  blocks[34] = 0;
  blocks[35] = 0x7c;
  made.parts[0] = ByteBuilder().text(blocks);
  SafetensorsBuilder file;
  add_parts(file, made);
  const TempFolder folder;
  const auto model = open_dense(write(folder, file, {made.record}));
  ASSERT_TRUE(model);
  std::vector<float> row(32);
  EXPECT_TRUE((*model)->read_rows(0, 0, 1, row).ok());
  EXPECT_EQ((*model)->read_rows(0, 1, 1, row).code(), StatusCode::kCorrupt);
}

TEST(DensePith, TextThatIsNoManifest) {
  SafetensorsBuilder file;
  file.metadata("pith", "{}").add("w", "F32", {1}, ByteBuilder().f32(1));
  const TempFolder folder;
  const auto model = open_dense(folder.write("m.safetensors", file.str()));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::kCorrupt);
  // Without open_dense the file is what it is.
  EXPECT_TRUE(Checkpoint::open(folder / "m.safetensors"));
}

}  // namespace
}  // namespace pith

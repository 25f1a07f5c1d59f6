// npy files, and npz: zip archives of them, stored and not deflated, so that the place of
// every byte is known before the data. Arrays start at multiples of 64; sizes and offsets
// from 4 GiB on use zip64. docs/formats/npy.md has the layouts.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/file_plan.h"
#include "src/io/zip_directory.h"

namespace pith {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint32_t kMax32 = 0xffffffff;
constexpr std::uint16_t kMax16 = 0xffff;
constexpr std::uint16_t kStoredVersion = 20;
constexpr std::uint16_t kZip64Version = 45;
constexpr std::uint16_t kUtf8Flag = 1 << 11;
constexpr std::uint16_t kDate = 0x21;          // 1980-01-01: the same bytes on every day
constexpr std::uint16_t kAlignExtra = 0xd935;  // the id that tools for Android gave it

std::string_view descr_of(const Encoding& encoding) {
  if (!encoding.dtype) return {};
  switch (*encoding.dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kU8:
      return "|u1";
    case DType::kI8:
      return "|i1";
    case DType::kU16:
      return "<u2";
    case DType::kI16:
      return "<i2";
    case DType::kU32:
      return "<u4";
    case DType::kI32:
      return "<i4";
    case DType::kU64:
      return "<u8";
    case DType::kI64:
      return "<i8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kC64:
      return "<c8";
    default:
      return {};
  }
}

// Everything of an npy file before the array; a multiple of 64 long.
Result<std::string> npy_header(const TensorSpec& tensor) {
  const std::string_view descr = descr_of(tensor.encoding);
  if (descr.empty()) {
    return Status::unsupported(
        fmt::format("{}: npy cannot hold {}; convert it to f32 or f16",
                    shown_tensor(tensor), tensor.encoding.name));
  }
  std::string shape;
  for (const std::int64_t extent : tensor.shape.extents()) {
    shape += fmt::format("{}{}", shape.empty() ? "" : " ", extent) + ",";
  }
  // (2, 3), (3,) and ()
  if (tensor.shape.rank() > 1) shape.pop_back();
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  constexpr std::size_t kPrefix = 10;
  while ((kPrefix + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  if (text.size() > 10000) {  // what readers accept from strangers
    return Status::unsupported(
        fmt::format("{}: shape of {} dimensions is too long for npy",
                    shown_tensor(tensor), tensor.shape.rank()));
  }
  std::string header("\x93NUMPY\x01\x00", 8);
  put<std::uint16_t>(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

// One array of an archive.
struct PlannedEntry {
  std::string name;          // of the zip entry
  std::uint64_t offset = 0;  // of its local header
  std::string npy;           // header of the array
  std::uint64_t size = 0;    // of header and array
  std::uint64_t data_bytes = 0;

  [[nodiscard]] bool large() const { return size >= kMax32; }
  [[nodiscard]] std::uint16_t flags() const {
    const bool ascii = std::all_of(
        name.begin(), name.end(), [](char c) { return static_cast<signed char>(c) > 0; });
    return ascii ? 0 : kUtf8Flag;
  }
  [[nodiscard]] std::uint32_t crc(std::uint32_t data_crc) const {
    const uLong head = crc32_z(0, reinterpret_cast<const Bytef*>(npy.data()), npy.size());
    return static_cast<std::uint32_t>(
        crc32_combine64(head, data_crc, static_cast<z_off64_t>(data_bytes)));
  }
};

// What local headers and the directory have in common.
void put_common(std::string& out, const PlannedEntry& entry, std::uint32_t crc) {
  put<std::uint16_t>(out, entry.flags());
  put<std::uint16_t>(out, 0);  // stored
  put<std::uint16_t>(out, 0);
  put<std::uint16_t>(out, kDate);
  put<std::uint32_t>(out, crc);
  const auto size =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(entry.size, kMax32));
  put<std::uint32_t>(out, size);
  put<std::uint32_t>(out, size);
  put<std::uint16_t>(out, static_cast<std::uint16_t>(entry.name.size()));
}

std::string local_header(const PlannedEntry& entry, std::uint32_t crc) {
  std::string extra;
  if (entry.large()) {
    put<std::uint16_t>(extra, kZip64Extra);
    put<std::uint16_t>(extra, 16);
    put<std::uint64_t>(extra, entry.size);
    put<std::uint64_t>(extra, entry.size);
  }
  // A field that only takes room, so that the array is aligned: id, length, alignment,
  // zeros.
  const std::uint64_t end = entry.offset + 30 + entry.name.size() + extra.size() + 6;
  const std::uint64_t fill = (kAlignment - end % kAlignment) % kAlignment;
  put<std::uint16_t>(extra, kAlignExtra);
  put<std::uint16_t>(extra, static_cast<std::uint16_t>(2 + fill));
  put<std::uint16_t>(extra, static_cast<std::uint16_t>(kAlignment));
  extra.append(fill, '\0');

  std::string out = "PK\x03\x04";
  put<std::uint16_t>(out, entry.large() ? kZip64Version : kStoredVersion);
  put_common(out, entry, crc);
  put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
  return out + entry.name + extra;
}

std::string directory_entry(const PlannedEntry& entry, std::uint32_t crc) {
  std::string extra;
  if (entry.large()) {
    put<std::uint64_t>(extra, entry.size);
    put<std::uint64_t>(extra, entry.size);
  }
  if (entry.offset >= kMax32) put<std::uint64_t>(extra, entry.offset);
  const bool zip64 = !extra.empty();
  if (zip64) {
    std::string head;
    put<std::uint16_t>(head, kZip64Extra);
    put<std::uint16_t>(head, static_cast<std::uint16_t>(extra.size()));
    extra.insert(0, head);
  }
  std::string out = "PK\x01\x02";
  put<std::uint16_t>(out, 3 << 8 | kZip64Version);  // made on Unix
  put<std::uint16_t>(out, zip64 ? kZip64Version : kStoredVersion);
  put_common(out, entry, crc);
  put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
  put<std::uint16_t>(out, 0);  // comment
  put<std::uint16_t>(out, 0);  // disk
  put<std::uint16_t>(out, 0);
  put<std::uint32_t>(out, 0100644U << 16);  // a file, rw-r--r--
  put<std::uint32_t>(
      out, static_cast<std::uint32_t>(std::min<std::uint64_t>(entry.offset, kMax32)));
  return out + entry.name + extra;
}

std::string directory(const std::vector<PlannedEntry>& entries, std::uint64_t offset,
                      std::span<const std::uint32_t> crcs) {
  std::string out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out += directory_entry(entries[i], entries[i].crc(crcs[i]));
  }
  const std::uint64_t size = out.size();
  const std::uint64_t count = entries.size();
  if (count >= kMax16 || offset >= kMax32 || size >= kMax32) {
    const std::uint64_t record = offset + size;
    out += "PK\x06\x06";
    put<std::uint64_t>(out, 44);
    put<std::uint16_t>(out, 3 << 8 | kZip64Version);
    put<std::uint16_t>(out, kZip64Version);
    put<std::uint32_t>(out, 0);
    put<std::uint32_t>(out, 0);
    put<std::uint64_t>(out, count);
    put<std::uint64_t>(out, count);
    put<std::uint64_t>(out, size);
    put<std::uint64_t>(out, offset);
    out += "PK\x06\x07";
    put<std::uint32_t>(out, 0);
    put<std::uint64_t>(out, record);
    put<std::uint32_t>(out, 1);
  }
  out += "PK\x05\x06";
  put<std::uint32_t>(out, 0);
  put<std::uint16_t>(out,
                     static_cast<std::uint16_t>(std::min<std::uint64_t>(count, kMax16)));
  put<std::uint16_t>(out,
                     static_cast<std::uint16_t>(std::min<std::uint64_t>(count, kMax16)));
  put<std::uint32_t>(out,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kMax32)));
  put<std::uint32_t>(out,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(offset, kMax32)));
  put<std::uint16_t>(out, 0);
  return out;
}

// Names that no reader would unpack to another place.
Status check_name(const TensorSpec& tensor) {
  const std::string& name = tensor.name;
  constexpr std::size_t kMaxName = 60000;  // zip has 16 bits for it
  if (name.size() > kMaxName || name.starts_with('/') ||
      name.find('\\') != std::string::npos || name.find('\0') != std::string::npos ||
      name.find("..") != std::string::npos ||
      find_invalid_utf8(name) != std::string_view::npos) {
    return Status::invalid_argument(fmt::format(
        "{}: npz cannot hold this name: it needs UTF-8 without '..', '\\', NUL "
        "and leading '/'",
        shown_tensor(tensor)));
  }
  return {};
}

}  // namespace

Result<FilePlan> plan_npy(std::span<const TensorSpec* const> tensors) {
  if (tensors.size() != 1) {
    return Status::unsupported(
        fmt::format("an npy file holds one tensor, but there are {}: npz holds several",
                    tensors.size()));
  }
  FilePlan plan;
  PITH_TRY(std::string header, npy_header(*tensors[0]));
  PITH_TRY(const std::uint64_t bytes, bytes_of(*tensors[0]));
  plan.offsets = {header.size()};
  plan.bytes = {bytes};
  plan.size = header.size() + bytes;  // below 2^63 + 2^14
  plan.pieces.push_back({0, std::move(header)});
  return plan;
}

Result<FilePlan> plan_npz(std::span<const TensorSpec* const> tensors) {
  FilePlan plan;
  std::vector<PlannedEntry> entries;
  CheckedSize offset(0);
  for (const TensorSpec* tensor : tensors) {
    PITH_OK(check_name(*tensor));
    PlannedEntry entry;
    entry.name = tensor->name + ".npy";
    entry.offset = offset.value();
    PITH_TRY(entry.npy, npy_header(*tensor));
    PITH_TRY(entry.data_bytes, bytes_of(*tensor));
    const CheckedSize size = CheckedSize(entry.data_bytes) + entry.npy.size();
    entry.size = size.valid() ? size.value() : kMax32;
    const CheckedSize npy = offset + local_header(entry, 0).size();
    const CheckedSize data = npy + entry.npy.size();
    offset = data + entry.data_bytes;
    if (!size.fits_int64() || !offset.fits_int64()) {
      return Status::invalid_argument(
          fmt::format("{}: the file would exceed 2^63-1 bytes", shown_tensor(*tensor)));
    }
    plan.pieces.push_back({npy.value(), entry.npy});
    plan.offsets.push_back(data.value());
    plan.bytes.push_back(entry.data_bytes);
    entries.push_back(std::move(entry));
  }
  const std::uint64_t end = offset.value();
  const std::vector<std::uint32_t> none(entries.size(), 0);
  plan.size = end + directory(entries, end, none).size();
  plan.finish = [entries = std::move(entries), end](std::span<const std::uint32_t> crcs) {
    std::vector<FilePiece> pieces;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      pieces.push_back(
          {entries[i].offset, local_header(entries[i], entries[i].crc(crcs[i]))});
    }
    pieces.push_back({end, directory(entries, end, crcs)});
    return pieces;
  };
  return plan;
}

}  // namespace pith

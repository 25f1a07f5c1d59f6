// Zip archives that are right but for a few fields.
#pragma once

#include <string>

#include "fuzz/fields.h"
#include "tests/support/zip_builder.h"

namespace pith::fuzz {

inline void add_entry(Fields& fields, testing::ZipBuilder& zip, const std::string& name,
                      const std::string& content) {
  testing::ZipBuilderEntry entry;
  entry.name = name;
  entry.content = content;
  entry.deflated = fields.one_in(3);
  entry.zip64 = fields.one_in(3);
  entry.descriptor = fields.one_in(3);
  if (fields.one_in(8)) {
    const auto wide = [&] { return fields.number(); };
    switch (fields.below(12)) {
      case 0:
        entry.compressed = wide();
        break;
      case 1:
        entry.uncompressed = wide();
        break;
      case 2:
        entry.compressed = wide();
        entry.uncompressed = entry.compressed;
        break;
      case 3:
        entry.offset = wide();
        break;
      case 4:
        entry.crc = static_cast<std::uint32_t>(wide());
        break;
      case 5:
        entry.flags = static_cast<std::uint16_t>(wide());
        break;
      case 6:
        entry.method = static_cast<std::uint16_t>(wide());
        break;
      case 7:
        entry.local_name = fields.text(8);
        break;
      case 8:
        entry.data = fields.text(40);
        break;
      case 9:
        entry.extra = fields.text(30);
        break;
      case 10:
        entry.local_extra = fields.text(30);
        break;
      default:
        entry.disk = static_cast<std::uint16_t>(wide());
    }
  }
  zip.add(entry);
}

inline std::string finish(Fields& fields, testing::ZipBuilder& zip) {
  testing::ZipBuilderEnd end;
  end.zip64 = fields.one_in(2);
  if (fields.one_in(8)) {
    switch (fields.below(9)) {
      case 0:
        end.entries = fields.number();
        break;
      case 1:
        end.directory_size = fields.number();
        break;
      case 2:
        end.directory_begin = fields.number();
        break;
      case 3:
        end.record_begin = fields.number();
        break;
      case 4:
        end.record_size = fields.number();
        break;
      case 5:
        end.narrow_begin = static_cast<std::uint32_t>(fields.number());
        break;
      case 6:
        end.comment = fields.text(40);
        break;
      case 7:
        end.before_directory = fields.text(40);
        break;
      default:
        end.behind_directory = fields.text(40);
    }
  }
  return zip.finish(end);
}

}  // namespace pith::fuzz

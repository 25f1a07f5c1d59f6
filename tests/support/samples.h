// Sample files outside the project: ../shared/samples, or the folder that PITH_SHARED
// names. Names that begin with ok_ are valid files whose values stand in expected.json;
// those that begin with bad_ are wrong in one way and must be refused.
//
//   TEST(Gguf, Samples) { check_samples("gguf"); }
//
// A clone without that folder skips such tests; every check has a test of its own beside.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pith/io/checkpoint.h"

namespace pith::testing {

/// The folder of samples; empty if there is none.
std::filesystem::path samples_folder();

/// Checkpoint::open, or what takes its place.
using Opener = Result<std::unique_ptr<Checkpoint>> (*)(const std::filesystem::path&);

/// Reads every tensor of a file: rows as f32 in pieces of several sizes, and bytes, if it
/// has any of its own. The first error, or ok.
Status read_everything(const std::filesystem::path& path, Opener open = Checkpoint::open);

/// All values of a tensor; adds a failure to the test if they cannot be read.
std::vector<float> read_values(const Checkpoint& checkpoint, std::size_t tensor);

/// CRC-32 of values as little-endian binary32, in hexadecimal.
std::string crc_of(const std::vector<float>& values);

/// Expects every file of a folder of samples to be read, or refused by one line that
/// begins with its name. Skips the test if there are no samples.
void check_samples(const std::string& folder, Opener open = Checkpoint::open);

}  // namespace pith::testing

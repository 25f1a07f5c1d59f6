// The speed of files: `pith convert` against `cp`, `pith inspect --stats` against read().
//
//   bench_io [--pith PATH] [--folder FOLDER] [--mib N] [--rounds N]
//
// One run makes a checkpoint of N MiB of random f32 (2048 by default), which then lies in
// the page cache, and measures in turn, best of all rounds:
//
//   read         pread() into buffers that are used again, 2 threads, best of three sizes
//   stats        pith inspect --stats
//   cp           cp FILE COPY
//   convert      pith convert --dtype f16 --no-sync
//   cp + sync    cp FILE COPY, then sync COPY
//   convert sync pith convert --dtype f16
//
// With --compress 1 it measures pith compress instead, error figures and checksums included,
// from f32, bf16 and f16, a file of N MiB each:
//
//   bench_io --compress 1 [--only TEXT] [--rounds N] ...   those with TEXT in their name
//
// Speeds are bytes of the input per second. Outputs are removed before every measurement,
// and the disk is quiet when it begins.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pith/io/writer.h"
#include "src/kernels/convert.h"

extern char** environ;

namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string pith = "cli/pith";
  fs::path folder = fs::temp_directory_path();
  std::int64_t mib = 2048;
  int rounds = 5;
  bool compress = false;
  std::string only;
};

[[noreturn]] void die(const std::string& what) {
  fmt::print(stderr, "bench_io: {}\n", what);
  std::exit(1);
}

void make_checkpoint(const fs::path& path, std::int64_t mib,
                     pith::DType dtype = pith::DType::kF32) {
  constexpr std::int64_t kTensorMib = 64;
  constexpr std::int64_t kCols = 4096;
  const std::int64_t item = pith::bits_of(dtype) / 8;
  const std::int64_t tensors = std::max<std::int64_t>(1, mib / kTensorMib);
  const std::int64_t rows = (mib << 20) / tensors / kCols / item;
  // Random enough that no page is like another, cheap enough to make.
  std::vector<float> block(1 << 20);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  for (float& value : block) value = normal(random);
  pith::CheckpointLayout layout;
  for (std::int64_t i = 0; i < tensors; ++i) {
    layout.tensors.push_back(pith::TensorSpec::plain(
        fmt::format("layers.{}.weight", i), dtype, *pith::Shape::make({rows, kCols})));
  }
  auto writer = pith::CheckpointWriter::create(path, layout, {.overwrite = true});
  if (!writer) die(writer.error().message());
  const std::int64_t bytes = rows * kCols * item;
  std::vector<std::byte> stored(block.size() * static_cast<std::size_t>(item));
  for (std::int64_t i = 0; i < tensors; ++i) {
    block[static_cast<std::size_t>(i)] += 1.0F;
    pith::kernels::from_f32({.in = block.data(),
                             .to = dtype,
                             .out = stored.data(),
                             .count = std::ssize(block)});
    for (std::int64_t at = 0; at < bytes;) {
      const auto piece = std::as_bytes(std::span(stored))
                             .first(static_cast<std::size_t>(
                                 std::min<std::int64_t>(bytes - at, std::ssize(stored))));
      if (auto s = (*writer)->write(static_cast<std::size_t>(i), at, piece); !s.ok()) {
        die(s.message());
      }
      at += static_cast<std::int64_t>(piece.size());
    }
  }
  if (auto s = (*writer)->commit(); !s.ok()) die(s.message());
}

struct Measured {
  double seconds = 0;
  double resident_mib = 0;  // peak
};

Measured run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ) != 0) {
    die("cannot start " + arguments[0]);
  }
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child || status != 0) {
    die(fmt::format("{} failed with status {}", arguments[0], status));
  }
  posix_spawn_file_actions_destroy(&actions);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {seconds.count(), static_cast<double>(usage.ru_maxrss) / 1024};
}

Measured read_file(const fs::path& path, std::size_t buffer_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto size = static_cast<std::uint64_t>(fs::file_size(path));
  std::atomic<std::uint64_t> next{0};
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        std::vector<char> buffer(buffer_bytes);
        for (std::uint64_t at = next += buffer_bytes; at - buffer_bytes < size;
             at = next += buffer_bytes) {
          if (::pread(fd, buffer.data(), buffer.size(),
                      static_cast<off_t>(at - buffer_bytes)) < 0) {
            die("cannot read");
          }
        }
      });
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ::close(fd);
  return {seconds.count(), 0};
}

// One line of the table, over all rounds.
struct Row {
  std::string name;
  std::vector<double> seconds;
  double resident_mib = 0;

  void add(const Measured& measured) {
    seconds.push_back(measured.seconds);
    resident_mib = std::max(resident_mib, measured.resident_mib);
  }
  [[nodiscard]] double best() const {
    return *std::min_element(seconds.begin(), seconds.end());
  }
};

void print_row(const Row& row, double bytes, const Row* peer, const char* goal) {
  std::string all;
  for (const double s : row.seconds) all += fmt::format(" {:.2f}", s);
  std::string ratio;
  if (peer != nullptr) {
    // Each round against the same round: the machine's mood cancels out.
    std::vector<double> ratios;
    for (std::size_t i = 0; i < row.seconds.size(); ++i) {
      ratios.push_back(peer->seconds[i] / row.seconds[i]);
    }
    std::sort(ratios.begin(), ratios.end());
    ratio = fmt::format(
        "{:.2f} of {} (best against best), {:.2f} median of rounds; goal {}",
        peer->best() / row.best(), peer->name, ratios[ratios.size() / 2], goal);
  }
  fmt::print(
      "{:<20} {:6.2f} GB/s  {}{}\n              seconds:{}\n", row.name,
      bytes / row.best() / 1e9,
      row.resident_mib > 0 ? fmt::format("{:.0f} MiB resident  ", row.resident_mib) : "",
      ratio, all);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--pith") settings.pith = argv[i + 1];
    if (name == "--folder") settings.folder = argv[i + 1];
    if (name == "--mib") settings.mib = std::atoll(argv[i + 1]);
    if (name == "--rounds") settings.rounds = std::atoi(argv[i + 1]);
    if (name == "--compress") settings.compress = std::atoi(argv[i + 1]) != 0;
    if (name == "--only") settings.only = argv[i + 1];
  }
  return settings;
}

// pith compress against cp of its input, scheme by scheme.
void bench_compress(const Settings& settings, const fs::path& folder) {
  struct Case {
    std::string type;
    std::vector<std::string> flags;
    const char* goal;
    bool sync = false;
  };
  const std::vector<Case> cases = {
      {"f32", {"--quantize", "int8-row"}, ">= 2"},
      {"f32", {"--quantize", "int8-block64"}, ">= 2"},
      {"f32", {"--quantize", "q8_0"}, ">= 2"},
      {"f32", {"--quantize", "int4-g32"}, ">= 2"},
      {"f32", {"--quantize", "q4_0"}, ">= 2"},
      {"f32", {"--quantize", "int8"}, ""},
      {"f32", {"--quantize", "int8", "--prune", "0.5"}, ">= 1"},
      {"bf16", {"--quantize", "q8_0"}, ">= 1.4"},
      {"bf16", {"--quantize", "int8-row"}, ">= 1.4"},
      {"f16", {"--quantize", "q8_0"}, ">= 1.4"},
      {"f16", {"--quantize", "int8-row"}, ">= 1.4"},
      {"f32", {"--quantize", "int8-row"}, ">= 2", true},
  };
  const auto file = [&](const std::string& type) -> std::string {
    return folder / (type + ".safetensors");
  };
  const std::string copy = folder / "copy.safetensors";
  const std::string out = folder / "out.safetensors";
  make_checkpoint(file("f32"), settings.mib);
  make_checkpoint(file("bf16"), settings.mib, pith::DType::kBF16);
  make_checkpoint(file("f16"), settings.mib, pith::DType::kF16);
  fmt::print("{} MiB in the page cache, {} rounds, {} processors\n", settings.mib,
             settings.rounds, std::thread::hardware_concurrency());
  struct Measurement {
    Case what;
    Row cp;
    Row row;
  };
  std::vector<Measurement> measurements;
  for (const Case& c : cases) {
    std::string name = c.type;
    for (std::size_t i = 1; i < c.flags.size(); i += 2) name += " " + c.flags[i];
    if (name.find(settings.only) == std::string::npos) continue;
    if (c.sync) name += " sync";
    measurements.push_back({c, {c.sync ? "cp + sync" : "cp", {}}, {name, {}}});
  }
  // All in each round: a slow minute of the machine does not fall on one alone.
  for (int round = 0; round < settings.rounds; ++round) {
    for (auto& [c, cp, row] : measurements) {
      const std::string in = file(c.type);
      fs::remove(out);
      read_file(in, 1 << 20);
      ::sync();
      Measured copied = run_program({"cp", in, copy});
      if (c.sync) copied.seconds += run_program({"sync", copy}).seconds;
      cp.add(copied);
      fs::remove(copy);
      ::sync();
      std::vector<std::string> command = {settings.pith, "compress", in, "-o", out};
      command.insert(command.end(), c.flags.begin(), c.flags.end());
      if (!c.sync) command.emplace_back("--no-sync");
      row.add(run_program(command));
    }
  }
  for (const auto& [c, cp, row] : measurements) {
    print_row(row, static_cast<double>(fs::file_size(file(c.type))), &cp, c.goal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  std::string folder_name = (settings.folder / "bench_io-XXXXXX").string();
  if (::mkdtemp(folder_name.data()) == nullptr) die("cannot make " + folder_name);
  const fs::path folder = folder_name;
  if (settings.compress) {
    bench_compress(settings, folder);
    fs::remove_all(folder);
    return 0;
  }
  const std::string in = folder / "in.safetensors";
  const std::string copy = folder / "copy.safetensors";
  const std::string out = folder / "out.safetensors";
  make_checkpoint(in, settings.mib);
  const auto bytes = static_cast<double>(fs::file_size(in));

  Row read{"read", {}};
  Row stats{"stats", {}};
  Row cp{"cp", {}};
  Row convert{"convert", {}};
  Row cp_sync{"cp + sync", {}};
  Row convert_sync{"convert sync", {}};
  const auto fresh = [&] {
    fs::remove(copy);
    fs::remove(out);
    ::sync();
  };
  read_file(in, 1 << 20);  // into the page cache
  fresh();
  // Before there are copies: the system writes those to disk long after cp has ended.
  for (int round = 0; round < 3 * settings.rounds; ++round) {
    read.add(read_file(in, 1 << 20));
    stats.add(run_program({settings.pith, "inspect", in, "--stats"}));
  }
  for (int round = 0; round < settings.rounds; ++round) {
    fresh();
    cp.add(run_program({"cp", in, copy}));
    fresh();
    convert.add(run_program(
        {settings.pith, "convert", in, "-o", out, "--dtype", "f16", "--no-sync"}));
    fresh();
    Measured both = run_program({"cp", in, copy});
    both.seconds += run_program({"sync", copy}).seconds;
    cp_sync.add(both);
    fresh();
    convert_sync.add(
        run_program({settings.pith, "convert", in, "-o", out, "--dtype", "f16"}));
  }
  fs::remove_all(folder);

  fmt::print("{} MiB of f32 in the page cache, {} rounds, {} processors\n", settings.mib,
             settings.rounds, std::thread::hardware_concurrency());
  print_row(read, bytes, nullptr, "");
  print_row(stats, bytes, &read, ">= 0.7");
  print_row(cp, bytes, nullptr, "");
  print_row(convert, bytes, &cp, ">= 1.2");
  print_row(cp_sync, bytes, nullptr, "");
  print_row(convert_sync, bytes, &cp_sync, ">= 1.2");
}

// Runs the C++ code of the README on a checkpoint: readme.h is cut out of it by CMake.
#include <cstdio>
#include <filesystem>

#include "readme.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: readme CHECKPOINT\n");
    return 2;
  }
  std::filesystem::remove("small.safetensors");  // of the last time
  const pith::Status status = shrink(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "readme: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

# Debian package names are in scripts/setup.sh. Nothing is downloaded.
find_package(Threads REQUIRED)
find_package(hwy REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

set(PITH_PRIVATE_LIBRARIES hwy::hwy TBB::tbb fmt::fmt nlohmann_json::nlohmann_json ZLIB::ZLIB
                           PkgConfig::xxhash Threads::Threads)

if(PITH_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(PITH_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
if(PITH_BUILD_CLI)
  find_package(CLI11 REQUIRED)
endif()

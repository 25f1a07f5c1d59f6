# pith_target(TARGET): flags shared by the library and everything built beside it.
#
# -ffp-contract=off: a fused multiply-add would give other bytes on other machines.
# x86-64-v2 is the baseline; kernels for newer sets are compiled by Highway and chosen at run time.
function(pith_target target)
  pith_warnings(${target})
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # Only Highway's headers are used; its assertions would need its library.
  target_compile_definitions(${target} PRIVATE HWY_IS_DEBUG_BUILD=0)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -march=x86-64-v2)
    # Highway counts SSE4 as available only with AES and CLMUL, which the baseline lacks and no
    # kernel uses.
    target_compile_definitions(${target} PRIVATE HWY_DISABLE_PCLMUL_AES=1)
    if(PITH_BUILD_FUZZ)
      # Fuzzers look at parsers; instrumented kernels take minutes to compile for each set.
      target_compile_definitions(${target} PRIVATE HWY_COMPILE_ONLY_STATIC)
    elseif(NOT PITH_AVX512)
      target_compile_definitions(${target} PRIVATE "HWY_DISABLED_TARGETS=(HWY_AVX3|HWY_AVX3_DL)")
    else()
      target_compile_definitions(${target} PRIVATE HWY_WANT_AVX3_DL)  # with VNNI
    endif()
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    # NEON is part of every such processor, and the only set that is tested: without this,
    # Highway would also compile SVE, and ask of NEON the AES instructions no kernel uses.
    target_compile_definitions(${target} PRIVATE TOOLCHAIN_MISS_SYS_AUXV_H=1)
  endif()
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Meant for headers; there, a .cc is one.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  set(hardening -fstack-protector-strong -fstack-clash-protection -D_GLIBCXX_ASSERTIONS)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND hardening -fcf-protection=full)
  endif()
  target_compile_options(${target} PRIVATE ${hardening})
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)
  if(PITH_SANITIZE)
    # gcc 12 sees copies beyond strings that are none, once they are instrumented.
    target_compile_options(${target} PRIVATE -O1 -g1 -Wno-error
                                             -fsanitize=${PITH_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${PITH_SANITIZE})
  else()
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE
                                             -D_FORTIFY_SOURCE=2>)
  endif()
endfunction()

# pith_unity_folders(TARGET): in a unity build, files are compiled together only with others of their folder, in
# units of about equal size. Kernels stay alone: Highway compiles each of them once per instruction set.
function(pith_unity_folders target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    if(NOT folder STREQUAL "kernels")
      math(EXPR unit "0${files_${folder}} / 10")
      math(EXPR files_${folder} "0${files_${folder}} + 1")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                  PROPERTIES UNITY_GROUP ${folder}_${unit})
    endif()
  endforeach()
endfunction()

# What tests share, compiled once: headers that take longer than most tests, and the samples.
if(PITH_BUILD_TESTS)
  add_library(pith_test_support STATIC ${PROJECT_SOURCE_DIR}/tests/support/headers.cc)
  if(NOT PITH_KERNELS_ONLY)
    target_sources(pith_test_support PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/samples.cc)
  endif()
endif()

# pith_test_target(TARGET): flags and libraries of a test. Tests see private headers. They are compiled
# with little optimization, for the time that takes; the library they test is not.
function(pith_test_target target)
  pith_target(${target})
  target_compile_options(${target} PRIVATE -Og)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O1 gcc 12 sees overflows in libstdc++'s own string concatenation that are not there.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict)
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE pith::pith ${PITH_PRIVATE_LIBRARIES} GTest::gtest
                                          GTest::gtest_main rapidcheck rapidcheck_gtest)
endfunction()

# pith_test(NAME SOURCES...): a GoogleTest program, one test of ctest.
function(pith_test name)
  if(NOT PITH_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARGN})
  pith_test_target(${name})
  target_precompile_headers(${name} REUSE_FROM pith_test_support)
  target_link_libraries(${name} PRIVATE pith_test_support)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

#include "cli/demo_data.h"

// The assembler reads the files: half a megabyte of numbers would take the compiler
// seconds. PITH_DEMO_FOLDER is used only there and does not get into the command.
#define PITH_EMBED(name, file)                            \
  asm(".pushsection .rodata\n"                            \
      ".balign 16\n" #name                                \
      ":\n"                                               \
      ".incbin \"" PITH_DEMO_FOLDER "/" file "\"\n" #name \
      "_end:\n"                                           \
      ".popsection\n"                                     \
      ".global " #name "\n.hidden " #name                 \
      "\n"                                                \
      ".global " #name "_end\n.hidden " #name "_end\n")

PITH_EMBED(pith_demo_model, "model.safetensors");
PITH_EMBED(pith_demo_test, "test.safetensors");

extern "C" {
extern const char pith_demo_model[];
extern const char pith_demo_model_end[];
extern const char pith_demo_test[];
extern const char pith_demo_test_end[];
}

namespace pith::cli {

std::string_view demo_model() {
  return {pith_demo_model,
          static_cast<std::size_t>(pith_demo_model_end - pith_demo_model)};
}

std::string_view demo_test() {
  return {pith_demo_test, static_cast<std::size_t>(pith_demo_test_end - pith_demo_test)};
}

}  // namespace pith::cli

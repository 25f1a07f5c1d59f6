#include "cli/command.h"

int main(int argc, char** argv) { return pith::cli::run(argc, argv); }

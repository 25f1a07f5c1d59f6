// The version of the library: MAJOR.MINOR.PATCH as in the CHANGELOG.
#pragma once

#define PITH_VERSION "0.1.0"

// What this build is. The values come from the build: cmake/rapt_build_info.cmake.
#include "rapt/version.h"

namespace rapt {

namespace {
// clang-format off
constexpr char kBuildInfo[] =
    RAPT_VERSION " (commit "
#include "rapt_commit.inc"
    ", " RAPT_COMPILER ", " RAPT_BUILD_TYPE ")";
// clang-format on
}  // namespace

const char* version() noexcept { return RAPT_VERSION; }

const char* build_info() noexcept { return kBuildInfo; }

}  // namespace rapt

#pragma once
// Version and build. The version number itself is only in the file VERSION.

namespace rapt {

const char* version() noexcept;     // "0.1.0"
const char* build_info() noexcept;  // "0.1.0 (commit 1234abcd, g++ 12.2.0, Release)"

}  // namespace rapt

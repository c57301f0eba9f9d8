#pragma once
// What this build is. The version number itself is written in the file VERSION only.

namespace rapt {

const char* version() noexcept;     // "0.1.0"
const char* build_info() noexcept;  // "0.1.0 (commit 1234abcd, g++ 12.2.0, Release)"

}  // namespace rapt

#pragma once
// Restricts the calling process and the program that it executes, for their lifetime. Needs no
// rights, so it works in containers, as root and as any user.
#include <vector>

namespace rapt::cli_test {

// Drops root's capabilities, so that file permissions apply to it. False if the system forbids
// this.
bool drop_capabilities() noexcept;

struct RefusedCall {
  int number;           // number of the system call, such as SYS_fsync
  int error;            // errno that it returns, such as ENOSPC
  int descriptor = -1;  // fails only for this first argument; -1: always
};

// Installs a seccomp filter. False if the system has no seccomp.
bool refuse_calls(const std::vector<RefusedCall>& calls) noexcept;

}  // namespace rapt::cli_test

#pragma once
// What a process may not do, for the life of it and of the program it becomes. Needs no rights, so
// that it works in containers, as root and as anybody.
#include <vector>

namespace rapt::cli_test {

// Root may write everywhere; without capabilities it is held by permissions as others are.
// False if the system does not let it.
bool drop_capabilities() noexcept;

struct RefusedCall {
  int number;           // of the system call: SYS_fsync
  int error;            // what it shall return: ENOSPC
  int descriptor = -1;  // only where this is its first argument; -1: always
};

// Linux seccomp. False if the system lacks it.
bool refuse_calls(const std::vector<RefusedCall>& calls) noexcept;

}  // namespace rapt::cli_test

// Uses capset and seccomp filters (capabilities(7), seccomp(2)) between fork and exec.
#include "cli/support/refused_calls.h"

#include <endian.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "the lower half of an argument comes first");

namespace rapt::cli_test {
namespace {

// Without this, exec would return root's capabilities, and a seccomp filter would need one.
bool give_up_new_rights() noexcept { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

}  // namespace

bool drop_capabilities() noexcept {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return give_up_new_rights() && syscall(SYS_capset, &header, none) == 0;
}

bool refuse_calls(const std::vector<RefusedCall>& calls) noexcept {
  const auto instruction = [](int code, size_t operand, int if_false = 0) {
    return sock_filter{static_cast<unsigned short>(code), 0, static_cast<unsigned char>(if_false),
                       static_cast<unsigned>(operand)};
  };
  constexpr int kLoad = BPF_LD | BPF_W | BPF_ABS, kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  std::vector<sock_filter> filter;
  for (const RefusedCall& call : calls) {
    const bool any = call.descriptor < 0;
    filter.push_back(instruction(kLoad, offsetof(seccomp_data, nr)));
    filter.push_back(instruction(kEqual, static_cast<size_t>(call.number), any ? 1 : 3));
    if (!any) {  // the lower half of the first argument
      filter.push_back(instruction(kLoad, offsetof(seccomp_data, args)));
      filter.push_back(instruction(kEqual, static_cast<size_t>(call.descriptor), 1));
    }
    filter.push_back(
        instruction(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(call.error)));
  }
  filter.push_back(instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return give_up_new_rights() && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace rapt::cli_test

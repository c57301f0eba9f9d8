// Static objects of this program use the pool in their destructors, while its threads sleep and
// while another thread still calls run(). Exits with 0 on success.
#include <cstdlib>
#include <string_view>
#include <thread>

#include "rapt/thread_pool.h"
#include "threads/jobs.h"

namespace {

bool use() { return threads::runs_rightly(rapt::default_pool(), 50, 64); }

struct UsedLast {
  ~UsedLast() {
    if (!use()) std::_Exit(1);
  }
} used_last;  // made before the pool, so destroyed after everything made later

}  // namespace

int main(int argc, char** argv) {
  if (!use()) return 2;
  if (argc > 1 && std::string_view(argv[1]) == "busy")
    std::thread([] {
      for (;;) use();
    }).detach();
  std::atexit([] {
    if (!use()) std::_Exit(3);
  });
  return 0;
}

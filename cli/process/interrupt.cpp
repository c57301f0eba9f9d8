// The first signal sets a flag, so that destructors remove temporary files. The second one ends the
// process at once, in case it waits for a silent pipe.
#include "cli/process/interrupt.h"

#include <csignal>

#include "rapt/error.h"
#include "rapt/io/output_file.h"

namespace rapt::cli {
namespace {

CancelToken token;  // lock-free, so a signal handler may set it

extern "C" void on_signal(int signal) {
  if (!token.cancelled()) return token.cancel();
  remove_temporaries();
  std::signal(signal, SIG_DFL);
  raise(signal);  // takes effect when this handler has returned
}

}  // namespace

const CancelToken& interruption() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;  // without SA_RESTART: a read from a silent pipe must end
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction old = {};
      sigaction(signal, nullptr, &old);
      // nohup and shells without job control make the process ignore a signal; that stays so.
      if (old.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
    return true;
  }();
  (void)installed;
  return token;
}

void stop_if_interrupted() {
  if (token.cancelled()) throw Error(ErrorCode::cancelled, "interrupted; nothing was written");
}

}  // namespace rapt::cli

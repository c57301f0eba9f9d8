// Signals set a flag and do nothing else, so that destructors remove temporary files.
#include "interrupt.h"

#include <csignal>

#include "rapt/error.h"

namespace rapt::cli {
namespace {

CancelToken token;  // lock-free, so a signal handler may set it

extern "C" void on_signal(int) { token.cancel(); }

}  // namespace

const CancelToken& interruption() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction old = {};
      sigaction(signal, nullptr, &old);
      // nohup and shells without job control ignore a signal for us: that stays.
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

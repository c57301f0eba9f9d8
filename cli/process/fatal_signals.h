#pragma once
// Handlers for signals that end the program at once, without destructors.
#include <string>

namespace rapt::cli {

// From now on, with `command` ("rapt attend") in the messages:
//   SIGBUS            a mapped file was made shorter by somebody: an error of input as others, one
//                     line that names the file, exit code 4
//   SIGPIPE, SIGQUIT, and what batch systems send (SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2)
//                     end the program as ever
//   SIGXFSZ           no signal: writing fails, as on a full disk
// and no temporary file is left.
void clean_up_on_fatal_signals(const std::string& command);

}  // namespace rapt::cli

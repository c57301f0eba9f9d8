// open() returns the lowest free descriptor.
#include "cli/process/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace rapt::cli {

void reserve_standard_streams() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace rapt::cli

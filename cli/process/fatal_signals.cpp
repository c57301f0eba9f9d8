// Handlers may interrupt any code, so they call only async-signal-safe functions: no allocation, no
// stdio, no exceptions.
#include "cli/process/fatal_signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "cli/process/failure.h"
#include "rapt/io/input_file.h"
#include "rapt/io/output_file.h"

namespace rapt::cli {
namespace {

char command_name[64] = "rapt";
std::atomic_flag ending = ATOMIC_FLAG_INIT;

// Builds a line in a buffer; text that does not fit is cut.
class Line {
 public:
  // Like printable(): control characters become \xNN.
  void add(const char* text) {
    constexpr char kHex[] = "0123456789abcdef";
    for (; *text != '\0'; ++text) {
      const auto byte = static_cast<unsigned char>(*text);
      const bool plain = byte >= 0x20 && byte != 0x7f;
      const char escape[] = {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      const size_t length = plain ? 1 : sizeof escape;
      if (size_ + length >= sizeof text_) return;
      std::memcpy(text_ + size_, plain ? text : escape, length);
      size_ += length;
    }
  }
  void write_to_stderr() {
    text_[size_++] = '\n';
    for (size_t done = 0; done < size_;) {
      const ssize_t count = write(STDERR_FILENO, text_ + done, size_ - done);
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }

 private:
  char text_[4096 + 256];  // PATH_MAX and the rest of the message
  size_t size_ = 0;
};

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const char* const file = mapped_file_at(info->si_addr);
  if (file == nullptr) {  // a bug in rapt, or broken memory
    std::signal(signal, SIG_DFL);
    return;  // the access is repeated, and now ends the program
  }
  if (ending.test_and_set()) pause();  // another thread handles a signal and will end the process
  remove_temporaries();
  Line line;
  line.add(command_name);
  line.add(": ");
  line.add(file);
  line.add(": became shorter while it was being read; no file was written");
  line.write_to_stderr();
  _exit(static_cast<int>(Exit::io));
}

extern "C" void on_fatal_signal(int signal) {
  remove_temporaries();
  raise(signal);  // again: SA_RESETHAND has restored its default effect
}

}  // namespace

void clean_up_on_fatal_signals(const std::string& command) {
  std::strncpy(command_name, command.c_str(), sizeof command_name - 1);
  struct sigaction bus = {};
  bus.sa_sigaction = on_bus_error;
  bus.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &bus, nullptr);
  struct sigaction fatal = {};
  fatal.sa_handler = on_fatal_signal;
  fatal.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGPIPE, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2}) {
    struct sigaction old = {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_IGN)
      sigaction(signal, &fatal, nullptr);  // a signal that is ignored stays ignored
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace rapt::cli

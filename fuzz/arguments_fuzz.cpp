// Command lines from any text, one word per line: accepted, or rejected with a message, without
// opening a file, printing or computing. Calls read() and check() of every command, as the program
// does before it runs one.
#include <stdio_ext.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/input/arguments.h"
#include "cli/input/matrix_argument.h"
#include "cli/input/tensor_input.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"
#include "largest_allocation.h"

using namespace rapt;
using namespace rapt::cli;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool reading = false;  // of a command line, when nothing may be opened

// Any other exception is a bug, as in report_failure().
template <class Call>
void refused_or(const Call& call) {
  try {
    call();
  } catch (const CLI::Success&) {
  } catch (const CLI::Error& error) {
    require(*error.what() != '\0');
  } catch (const Failure& failure) {
    require(*failure.what() != '\0' && failure.exit() != Exit::differs);
  } catch (const Error& error) {
    require(*error.what() != '\0');
  }
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '\n' || c == '\0') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Parses a word as the value of some options that their commands check only later.
void value_from(const std::string& word) {
  const std::string option = "--option";
  refused_or([&] { require(parse_bytes(option, word) >= 0); });
  refused_or([&] {
    const auto [begin, end] = parse_range(option, word);
    require(begin >= 0 && begin <= end);
  });
  refused_or([&] {
    std::string again;
    for (const int64_t value : parse_integers(option, word))
      again += (again.empty() ? "" : ",") + std::to_string(value);
    require(parse_integers(option, again) == parse_integers(option, word));
  });
  refused_or([&] {
    const TensorAddress address = address_of(word);
    const std::string again = address.path + (address.named ? ":" + address.name : "");
    require(again == word);
  });
  refused_or([&] {
    const TensorPlace place = place_of(option, word, Endings::any);
    require(place.name.empty() || place.path + ":" + place.name == word);
  });
  if (is_matrix_text(word))
    refused_or([&] { require(parse_matrix(option, word).count() <= std::ssize(word)); });
}

}  // namespace

// The linker redirects all calls of open() to this function; every tensor and every output is
// opened by open().
extern "C" int __real_open(const char* path, int flags, mode_t mode);
extern "C" int __wrap_open(const char* path, int flags, mode_t mode) {
  require(!reading);
  return __real_open(path, flags, mode);
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::setvbuf(stdout, nullptr, _IOFBF,
               size_t{1} << 20);  // buffered, so that output can be detected
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // CLI11 keeps the order of all options that it has read, so a new object is made before it grows.
  static std::optional<CommandLine> line;
  static int uses = 0;
  if (uses++ % 100'000 == 0) line.emplace();
  const std::vector<std::string> words = words_of({reinterpret_cast<const char*>(data), size});
  fuzz::begin_watching();
  reading = true;
  refused_or([&] {
    const Command* const command = line->read(words);
    if (command != nullptr) command->check();
  });
  value_from(words.back());
  reading = false;
  require(__fpending(stdout) == 0);
  // Room for the problems of `rapt bench`, at most 1,000 per number of threads.
  require(fuzz::largest_allocation <= size_t{1} << 25);
  return 0;
}

// main() of a fuzz target without libFuzzer: runs every file of the folders, then -runs=N random
// mutations of them, the same ones for the same -seed=N. It has no coverage feedback, so it only
// finds bugs near the corpus, which libFuzzer has built.
//
//   npy_fuzz [-runs=50000] [-seed=1] [-dict=FILE] FOLDER...
//
// An input that crashes the program is saved in the working folder as found-SIZE-HASH.
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
[[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);
[[gnu::weak]] size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                             unsigned seed);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
}

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMostBytes = 4096;  // as libFuzzer's own
std::mt19937_64 engine;
std::vector<std::string> dictionary;
Bytes current;  // the input that the target processes

size_t below(size_t count) { return count == 0 ? 0 : engine() % count; }

void leave_current() {
  const std::string_view text(reinterpret_cast<const char*>(current.data()), current.size());
  const std::string name = "found-" + std::to_string(text.size()) + "-" +
                           std::to_string(std::hash<std::string_view>()(text));
  std::ofstream(name, std::ios::binary) << text;
  std::fprintf(stderr, "the input is in %s\n", name.c_str());
}

extern "C" void on_abort(int) { leave_current(); }  // then abort() continues

void try_current() {
  const Bytes exact(current);  // of exact size, so that a read beyond the end is detected
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Bytes bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

// Lines of a dictionary: "text", with \xNN, \\ and \" in it; # begins a comment.
std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (line.empty() || line[0] == '#' || begin == end) continue;
    std::string word;
    for (size_t i = begin + 1; i < end; ++i) {
      if (line[i] != '\\') {
        word += line[i];
      } else if (line[i + 1] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        word += line[++i];
      }
    }
    words.push_back(word);
  }
  return words;
}

// One change: of a byte, some bytes more or less, a word, or a part that is copied elsewhere.
void change(Bytes& bytes) {
  const size_t at = below(bytes.size() + 1);
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const size_t count = std::min(bytes.size() - at, below(16) + 1);
  const auto part_end = place + static_cast<std::ptrdiff_t>(count);
  switch (below(6)) {
    case 0:
      if (count > 0) *place ^= static_cast<uint8_t>(1u << below(8));
      break;
    case 1:
      if (count > 0) *place = static_cast<uint8_t>(engine());
      break;
    case 2:
      bytes.erase(place, part_end);
      break;
    case 3: {
      const Bytes part(place, part_end);
      const auto to = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1));
      bytes.insert(to, part.begin(), part.end());
      break;
    }
    default: {
      const std::string word = dictionary.empty() ? std::string(1, static_cast<char>(engine()))
                                                  : dictionary[below(dictionary.size())];
      if (below(2) == 0) bytes.erase(place, part_end);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), word.begin(), word.end());
    }
  }
}

Bytes mutated(const Bytes& from) {
  Bytes bytes(from);
  bytes.resize(std::max(kMostBytes, from.size()));
  const auto seed = static_cast<unsigned>(engine());
  for (size_t size = from.size();;) {
    size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(bytes.data(), size, bytes.size(), seed)
                                   : LLVMFuzzerMutate(bytes.data(), size, bytes.size());
    if (below(3) != 0) continue;
    bytes.resize(size);
    return bytes;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  Bytes bytes(data, data + size);
  change(bytes);
  size = std::min(bytes.size(), max_size);
  std::copy_n(bytes.begin(), size, data);
  return size;
}

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  std::signal(SIGABRT, on_abort);
  __sanitizer_set_death_callback(leave_current);

  size_t runs = 0;
  std::vector<std::filesystem::path> files;
  for (const std::string& argument : std::vector<std::string>(argv + 1, argv + argc)) {
    const auto value_of = [&](std::string_view option) {
      return argument.starts_with(option) ? argument.substr(option.size()) : "";
    };
    if (const std::string value = value_of("-runs="); !value.empty()) runs = std::stoull(value);
    if (const std::string value = value_of("-seed="); !value.empty())
      engine.seed(std::stoull(value));
    if (const std::string value = value_of("-dict="); !value.empty()) dictionary = words_of(value);
    if (argument[0] == '-') continue;  // of libFuzzer
    for (const auto& entry : std::filesystem::directory_iterator(argument))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the same order everywhere
  std::vector<Bytes> corpus;
  for (const std::filesystem::path& file : files) corpus.push_back(bytes_of(file));
  if (corpus.empty()) {
    std::fprintf(stderr, "expected folders with inputs\n");
    return 2;
  }
  for (const Bytes& bytes : corpus) {
    current = bytes;
    try_current();
  }
  for (size_t run = 0; run < runs; ++run) {
    current = mutated(corpus[below(corpus.size())]);
    try_current();
  }
  std::fprintf(stderr, "%zu inputs, and %zu made of them\n", corpus.size(), runs);
  return 0;
}

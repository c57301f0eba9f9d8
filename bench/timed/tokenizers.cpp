// Speed of byte-level BPE on a text, one thread, CPU time, the best of some calls:
//
//   bench_tokenizers [TEXT [VOCABULARY]]    a JSON line; without a text, it makes one of 100,000
//   words
//
// learn: a vocabulary (default 1,280) from the text; encode and decode: the whole text in one call.
// bench/peers/tokenize.py runs it beside the package tokenizers.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "rapt/text/learn.h"

namespace {

constexpr int kCalls = 5;
constexpr int64_t kVocabulary = 1280;  // 1,024 merges
constexpr int kWords = 100'000;

double seconds_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(const std::function<void()>& call) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalls; ++i) {
    const double start = seconds_of_thread();
    call();
    best = std::min(best, seconds_of_thread() - start);
  }
  return best;
}

// Words of random letters, short ones more often, each from a list of 5,000.
std::string made_text() {
  std::mt19937 generator(1);
  std::vector<std::string> words(5000);
  for (size_t i = 0; i < words.size(); ++i)
    for (size_t letter = 0; letter <= i % 9; ++letter)
      words[i] += static_cast<char>('a' + generator() % 26);
  std::string text;
  for (int i = 0; i < kWords; ++i) text += words[generator() % (1 + generator() % 5000)] + " ";
  return text;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void measure(const std::string& text, int64_t vocabulary) {
  const rapt::text::Tokenizer tokenizer = rapt::text::learn_byte_level_bpe(text, vocabulary);
  const std::vector<int64_t> ids = tokenizer.encode(text);
  const double learn =
      best_seconds([&] { (void)rapt::text::learn_byte_level_bpe(text, vocabulary); });
  const double encode = best_seconds([&] { (void)tokenizer.encode(text); });
  const double decode = best_seconds([&] { (void)tokenizer.decode(ids); });
  std::printf(
      "{\"bytes\": %zu, \"ids\": %zu, \"learn\": %.6f, \"encode\": %.6f, \"decode\": %.6f}\n",
      text.size(), ids.size(), learn, encode, decode);
}

}  // namespace

int main(int count, char** words) {
  if (count > 3) {
    std::fputs("usage: bench_tokenizers [TEXT [VOCABULARY]]\n", stderr);
    return 2;
  }
  try {
    measure(count > 1 ? read_text(words[1]) : made_text(),
            count > 2 ? std::stoll(words[2]) : kVocabulary);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizers: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Speed of tokenizers on a text, one thread, CPU time, the best of some calls, as a JSON line:
//
//   bench_tokenizers [TEXT [VOCABULARY]]    learns byte-level BPE; without a text, it makes one of
//   100,000 words
//   bench_tokenizers TEXT FOLDER            reads the tokenizer of a folder
//
// learn: a vocabulary (default 1,280) from the text; encode and decode: the whole text in one call;
// encode_pages: a call for each page of 1,000 bytes, up to the next line.
// bench/peers/tokenizing.py runs it beside the package tokenizers.
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
#include <string_view>
#include <vector>

#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace {

constexpr int kCalls = 5;
constexpr int64_t kVocabulary = 1280;  // 1,024 merges
constexpr int kWords = 100'000;
constexpr size_t kPage = 1000;  // bytes

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

std::vector<std::string_view> pages_of(std::string_view text) {
  std::vector<std::string_view> pages;
  while (!text.empty()) {
    const size_t line_end = text.find('\n', kPage);
    pages.push_back(text.substr(0, line_end == std::string_view::npos ? line_end : line_end + 1));
    text.remove_prefix(pages.back().size());
  }
  return pages;
}

void measure(const rapt::text::Tokenizer& tokenizer, const std::string& text, double learn) {
  const std::vector<int64_t> ids = tokenizer.encode(text);
  const std::vector<std::string_view> pages = pages_of(text);
  const double encode = best_seconds([&] { (void)tokenizer.encode(text); });
  const double encode_pages = best_seconds([&] {
    for (const std::string_view page : pages) (void)tokenizer.encode(page);
  });
  const double decode = best_seconds([&] { (void)tokenizer.decode(ids); });
  std::printf(
      "{\"bytes\": %zu, \"ids\": %zu, \"learn\": %.6f, \"encode\": %.6f, "
      "\"encode_pages\": %.6f, \"decode\": %.6f}\n",
      text.size(), ids.size(), learn, encode, encode_pages, decode);
}

void learn_and_measure(const std::string& text, int64_t vocabulary) {
  const auto learn = [&] { return rapt::text::learn_byte_level_bpe(text, vocabulary); };
  measure(learn(), text, best_seconds([&] { (void)learn(); }));
}

bool is_number(const std::string& word) {
  return word.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

int main(int count, char** words) {
  if (count > 3) {
    std::fputs("usage: bench_tokenizers [TEXT [VOCABULARY|FOLDER]]\n", stderr);
    return 2;
  }
  try {
    const std::string text = count > 1 ? read_text(words[1]) : made_text();
    const std::string how = count > 2 ? words[2] : std::to_string(kVocabulary);
    if (is_number(how))
      learn_and_measure(text, std::stoll(how));
    else
      measure(rapt::text::read_tokenizer(how), text, 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizers: %s\n", error.what());
    return 1;
  }
  return 0;
}

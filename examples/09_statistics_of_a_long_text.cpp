// Shows statistics of attention in a long text without the matrix of weights: the entropy of each
// word's weights, the words that receive most attention, and the top keys of some words.
//
//   09_statistics_of_a_long_text [FILE]     FILE: examples/paragraph.txt, from the repository's
//   root
//
// The text is repeated until it is long. Entropy and the top keys come from the pass that computes
// the output; the sum of weights per key needs a second pass over the scores. None needs n x n
// memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "rapt/io/text_features.h"
#include "rapt/rapt.h"

namespace {

constexpr int64_t kWords = 4096, kTopKeys = 4;

std::vector<std::string> long_text(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot open ") + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::string> once = rapt::split_words(text);
  if (once.empty()) throw std::runtime_error(std::string("no word in ") + path);
  std::vector<std::string> words;
  while (std::ssize(words) < kWords) words.push_back(once[words.size() % once.size()]);
  return words;
}

// The peak memory of the process in MiB; 0 if the system does not report it (Linux does).
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> words =
      long_text(count > 1 ? arguments[1] : "examples/paragraph.txt");
  const rapt::Tensor x = rapt::text_features(words, rapt::kTextDim);  // [kWords, kTextDim]

  const rapt::Causal causal;
  const double before = peak_mib();
  const rapt::AttentionResult result =
      rapt::scaled_dot_product_attention(x, x, x,
                                         {.scale = rapt::kTextScale,
                                          .masks = {&causal},
                                          .top_k = kTopKeys,
                                          .entropy = true,
                                          .received = true});
  const double grown = peak_mib() - before;

  // The first word attends to one key and has entropy 0; the last one attends to all keys.
  const auto entropy = result.entropy.values<float>();  // [kWords]
  const auto [least, most] = std::minmax_element(entropy.begin(), entropy.end());
  const auto surest = least - entropy.begin(), most_torn = most - entropy.begin();
  std::printf("%lld words, each attends to itself and to all before it\n",
              static_cast<long long>(kWords));
  std::printf("entropy %.2f ('%s', word %td) to %.2f ('%s', word %td); ln %lld is %.2f\n",
              static_cast<double>(*least), words[static_cast<size_t>(surest)].c_str(), surest,
              static_cast<double>(*most), words[static_cast<size_t>(most_torn)].c_str(), most_torn,
              static_cast<long long>(kWords), std::log(static_cast<double>(kWords)));

  std::map<std::string, double> by_word;                  // summed over all places of the word
  const auto received = result.received.values<float>();  // [kWords]
  double sum = 0;
  for (size_t j = 0; j < words.size(); ++j) {
    by_word[words[j]] += static_cast<double>(received[j]);
    sum += static_cast<double>(received[j]);
  }
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& [word, weight] : by_word) ranked.emplace_back(weight, word);
  std::sort(ranked.rbegin(), ranked.rend());
  std::printf("received most:");
  for (size_t i = 0; i < std::min<size_t>(6, ranked.size()); ++i)
    std::printf(" '%s' %.1f %%", ranked[i].second.c_str(), 100 * ranked[i].first / sum);
  std::printf("\n");

  const auto keys = result.top_keys.values<int64_t>();      // [kWords, kTopKeys]
  const auto weights = result.top_weights.values<float>();  // [kWords, kTopKeys]
  for (const int64_t word : {int64_t{100}, kWords / 2, kWords - 1}) {
    std::printf("word %lld, '%s', looks at", static_cast<long long>(word),
                words[static_cast<size_t>(word)].c_str());
    for (int64_t k = 0; k < kTopKeys; ++k) {
      const auto at = static_cast<size_t>(word * kTopKeys + k);
      std::printf("%s '%s' %lld words before (%.3f)", k ? "," : "",
                  words[static_cast<size_t>(keys[at])].c_str(),
                  static_cast<long long>(word - keys[at]), static_cast<double>(weights[at]));
    }
    std::printf("\n");
  }

  const double matrix = static_cast<double>(kWords) * kWords * sizeof(float) / (1 << 20);
  std::printf("memory: the call took %.1f MiB, results included; the matrix of weights has %.0f\n",
              grown, matrix);
  // The weights of each query sum to 1.
  if (std::abs(sum - static_cast<double>(kWords)) > 1e-3 * static_cast<double>(kWords)) {
    std::fprintf(stderr, "the keys received %f, expected %lld\n", sum,
                 static_cast<long long>(kWords));
    return 1;
  }
  return grown < matrix ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// Shows a cache of keys and values in pages: three sequences share the pages of one prompt, then go
// on with words of their own. Every step is one call for all three, which reads keys and values
// where they lie. Its results have the bits of plain calls on a copy of each sequence's keys.
//
// The model is a toy: one layer with made-up projections, rotary embedding, and the next word is
// the one whose embedding has the largest product with the output.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kSequences = 3, kHeads = 4, kKvHeads = 2, kDim = 16, kWords = 50;
constexpr int64_t kPrompt = 37, kSteps = 20, kPageKeys = 16, kPages = 12;
constexpr int64_t kMostKeys = kPrompt + kSteps;

float made_up(int64_t i) {
  return std::sin(static_cast<float>(i) + 0.3f * static_cast<float>(i * i % 1009));
}
float embedding(int64_t word, int64_t d) { return made_up(word * 97 + d); }

// Rows [sequences, num_heads, n, kDim], projected from the words [sequences, n].
class Rows {
 public:
  Rows(int64_t sequences, int64_t num_heads, int64_t n)
      : numbers_(static_cast<size_t>(sequences * num_heads * n * kDim)),
        view_(numbers_.data(), {sequences, num_heads, n, kDim}) {}
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // `which` of the projections: 0 query, 1 key, 2 value.
  void project(const std::vector<int64_t>& words, int64_t which) {
    const int64_t num_heads = view_.shape[1], n = view_.shape[2];
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i), d = at % kDim, row = at / kDim % n;
      const int64_t head = at / (kDim * n) % num_heads, sequence = at / (kDim * n * num_heads);
      const int64_t word = words[static_cast<size_t>(sequence * n + row)];
      float sum = 0;
      for (int64_t e = 0; e < kDim; ++e)
        sum += embedding(word, e) * made_up(((which * kHeads + head) * kDim + d) * kDim + e);
      numbers_[i] = sum / 4;
    }
  }
  // Rotates the rows of all sequences, the first of which stand at `position`.
  void rotate(int64_t position) {
    rapt::rotary_embedding(view_, rapt::Rotary{}, {.start = position}, view_);
  }
  const rapt::TensorView& view() const { return view_; }

 private:
  std::vector<float> numbers_;
  rapt::TensorView view_;
};

// The word whose embedding has the largest product with the output [kHeads, kDim] of a sequence.
int64_t next_word(std::span<const float> output) {
  int64_t best = 0;
  float largest = -INFINITY;
  for (int64_t word = 0; word < kWords; ++word) {
    float product = 0;
    for (size_t i = 0; i < output.size(); ++i)
      product += output[i] * embedding(word, static_cast<int64_t>(i) % kDim);
    if (product > largest) largest = product, best = word;
  }
  return best;
}

// Does a plain call on the first `length` of these keys give the same bits as `output`?
bool plain_call_agrees(const rapt::TensorView& query, const Rows& keys, const Rows& values,
                       int64_t length, std::span<const float> output) {
  for (int64_t s = 0; s < kSequences; ++s) {
    const auto alone = rapt::scaled_dot_product_attention(
        query.slice(0, s, s + 1), keys.view().slice(0, s, s + 1).slice(2, 0, length),
        values.view().slice(0, s, s + 1).slice(2, 0, length), {.invariant = true});
    const std::span<const float> expected = alone.output.values<float>();
    if (std::memcmp(&output[static_cast<size_t>(s) * expected.size()], expected.data(),
                    expected.size_bytes()) != 0)
      return false;
  }
  return true;
}

}  // namespace

int main() try {
  rapt::KeyValueCache cache({.sequences = kSequences,
                             .num_kv_heads = kKvHeads,
                             .head_dim = kDim,
                             .page_keys = kPageKeys,
                             .pages = kPages});
  // The prompt goes into sequence 0. The others begin with its pages.
  std::vector<int64_t> prompt(kPrompt);
  for (int64_t i = 0; i < kPrompt; ++i) prompt[static_cast<size_t>(i)] = i * i % kWords;
  Rows prompt_keys(1, kKvHeads, kPrompt), prompt_values(1, kKvHeads, kPrompt);
  prompt_keys.project(prompt, 1), prompt_values.project(prompt, 2);
  prompt_keys.rotate(0);  // keys are rotated once, as they are appended
  const auto without_batch = [](const rapt::TensorView& v) {
    return rapt::TensorView(static_cast<float*>(v.data), {v.shape[1], v.shape[2], v.shape[3]});
  };
  cache.append(0, without_batch(prompt_keys.view()), without_batch(prompt_values.view()));
  for (int64_t s = 1; s < kSequences; ++s) cache.share(0, s, kPrompt);
  std::printf("a prompt of %lld words for %lld sequences: %lld pages of %lld keys\n",
              static_cast<long long>(kPrompt), static_cast<long long>(kSequences),
              static_cast<long long>(cache.pages_in_use()), static_cast<long long>(kPageKeys));

  // The same keys and values, kept apart for each sequence, to compare with.
  Rows plain_keys(kSequences, kKvHeads, kMostKeys), plain_values(kSequences, kKvHeads, kMostKeys);
  for (int64_t s = 0; s < kSequences; ++s) {
    rapt::write_to_cache(plain_keys.view().slice(0, s, s + 1), prompt_keys.view());
    rapt::write_to_cache(plain_values.view().slice(0, s, s + 1), prompt_values.view());
  }

  bool agrees = true;
  std::vector<int64_t> words = {1, 2, 3};  // the sequences diverge here
  Rows query(kSequences, kHeads, 1), key(kSequences, kKvHeads, 1), value(kSequences, kKvHeads, 1);
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t position = cache.position(0);  // the same for all sequences
    query.project(words, 0), key.project(words, 1), value.project(words, 2);
    query.rotate(position), key.rotate(position);
    cache.append(key.view(), value.view());
    const rapt::CacheViews now = cache.views();
    const auto result = rapt::scaled_dot_product_attention(query.view(), now.key, now.value,
                                                           {.invariant = true, .cache = now.cache});
    const std::span<const float> output = result.output.values<float>();

    const rapt::TensorView starts(&position, {1});
    rapt::write_to_cache(plain_keys.view(), key.view(), starts);
    rapt::write_to_cache(plain_values.view(), value.view(), starts);
    agrees &= plain_call_agrees(query.view(), plain_keys, plain_values, position + 1, output);
    for (int64_t s = 0; s < kSequences; ++s)
      words[static_cast<size_t>(s)] =
          next_word(output.subspan(static_cast<size_t>(s * kHeads * kDim), kHeads * kDim));
  }
  std::printf("%lld words more for each: %lld pages in use, %lld without sharing\n",
              static_cast<long long>(kSteps), static_cast<long long>(cache.pages_in_use()),
              static_cast<long long>(kSequences * ((kMostKeys + kPageKeys - 1) / kPageKeys)));
  std::printf("as plain calls: %s\n", agrees ? "the same bits" : "NOT THE SAME");
  return agrees ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

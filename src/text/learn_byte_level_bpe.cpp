// Merges by frequency, as BpeTrainer of the package tokenizers finds them.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "rapt/error.h"
#include "rapt/text/learn.h"
#include "text/bpe/split_pieces.h"
#include "text/byte_characters.h"
#include "text/check_utf8.h"
#include "text/parts.h"

namespace rapt::text {
namespace {

// A piece of the text, as its tokens so far.
struct Word {
  std::vector<uint32_t> ids;
  int64_t count = 0;  // how often it occurs
};

// A pair as one number, of the same order.
using Pair = uint64_t;
Pair pair_of(uint32_t left, uint32_t right) { return Pair{left} << 32 | right; }
uint32_t left_of(Pair pair) { return static_cast<uint32_t>(pair >> 32); }
uint32_t right_of(Pair pair) { return static_cast<uint32_t>(pair); }

std::vector<Word> words_of(std::string_view text, const std::array<uint32_t, 256>& byte_ids) {
  std::unordered_map<std::string_view, size_t> place;
  std::vector<Word> words;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text));
    const auto [at, is_new] = place.try_emplace(piece, words.size());
    if (is_new) {
      Word& word = words.emplace_back();
      for (const char byte : piece) word.ids.push_back(byte_ids[static_cast<uint8_t>(byte)]);
    }
    ++words[at->second].count;
    text.remove_prefix(piece.size());
  }
  return words;
}

class MergeLearner {
 public:
  MergeLearner(std::vector<Word> words, std::vector<std::string> tokens)
      : words_(std::move(words)), tokens_(std::move(tokens)) {
    for (uint32_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], id);
    for (size_t w = 0; w < words_.size(); ++w)
      for (size_t i = 1; i < words_[w].ids.size(); ++i)
        change(pair_of(words_[w].ids[i - 1], words_[w].ids[i]), words_[w].count, w);
    queue_new_pairs();
  }

  void learn(size_t vocabulary) {
    while (tokens_.size() < vocabulary && !queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      Waiting top = std::move(queue_.back());
      queue_.pop_back();
      const int64_t count = counts_[top.pair];
      if (count < 1) continue;
      if (top.count == count) {
        merge(top);
      } else {  // merges of other pairs have changed its count
        top.count = count;
        push(std::move(top));
      }
    }
  }

  std::vector<Merge>& merges() { return merges_; }
  std::vector<std::string>& tokens() { return tokens_; }

 private:
  struct Waiting {
    Pair pair;
    int64_t count;
    std::vector<size_t> words;  // that may hold the pair
    // The most frequent pair is merged first, of equal ones that with the smallest ids.
    friend bool operator<(const Waiting& a, const Waiting& b) {
      return a.count != b.count ? a.count < b.count : a.pair > b.pair;
    }
  };

  void change(Pair pair, int64_t count, size_t word) {
    counts_[pair] += count;
    if (count < 0) return;
    std::vector<size_t>& words = new_places_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void push(Waiting pair) {
    queue_.push_back(std::move(pair));
    std::push_heap(queue_.begin(), queue_.end());
  }

  void queue_new_pairs() {
    for (auto& [pair, words] : new_places_)
      if (const int64_t count = counts_[pair]; count > 0) push({pair, count, std::move(words)});
    new_places_.clear();
  }

  // The token of the pair. Another pair may have made the same bytes already.
  uint32_t token_of(Pair pair) {
    const std::string bytes = tokens_[left_of(pair)] + tokens_[right_of(pair)];
    const auto [at, is_new] = ids_.try_emplace(bytes, static_cast<uint32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(bytes);
    return at->second;
  }

  void merge(const Waiting& top) {
    const uint32_t id = token_of(top.pair);
    merges_.push_back({left_of(top.pair), right_of(top.pair), id});
    for (const size_t word : top.words) merge_in(word, merges_.back());
    queue_new_pairs();
  }

  void merge_in(size_t w, const Merge& merge) {
    Word& word = words_[w];
    std::vector<uint32_t>& ids = word.ids;
    size_t kept = 0;  // ids[0, kept) are done
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool here = ids[i] == merge.left && i + 1 < ids.size() && ids[i + 1] == merge.right;
      if (!here) {
        ids[kept++] = ids[i];
        continue;
      }
      if (kept > 0) {
        change(pair_of(ids[kept - 1], merge.left), -word.count, w);
        change(pair_of(ids[kept - 1], merge.id), word.count, w);
      }
      ++i;
      if (i + 1 < ids.size()) {
        change(pair_of(merge.right, ids[i + 1]), -word.count, w);
        change(pair_of(merge.id, ids[i + 1]), word.count, w);
      }
      ids[kept++] = merge.id;
    }
    ids.resize(kept);
  }

  std::vector<Word> words_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;  // of tokens_
  std::vector<Merge> merges_;
  std::unordered_map<Pair, int64_t> counts_;
  std::unordered_map<Pair, std::vector<size_t>> new_places_;  // words, since the last merge
  std::vector<Waiting> queue_;                                // a heap
};

}  // namespace

Tokenizer learn_byte_level_bpe(std::string_view text, int64_t vocabulary) {
  if (vocabulary < kByteTokens || vocabulary > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::argument,
                "vocabulary: expected " + std::to_string(kByteTokens) +
                    " to 2147483647 tokens, got " + std::to_string(vocabulary) +
                    "; the 256 bytes are tokens",
                "vocabulary");
  check_utf8(text);
  std::array<uint32_t, 256> byte_ids{};
  std::vector<std::string> tokens;
  for (const uint8_t byte : bytes_by_character()) {
    byte_ids[byte] = static_cast<uint32_t>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(byte));
  }
  MergeLearner learner(words_of(text, byte_ids), std::move(tokens));
  learner.learn(static_cast<size_t>(vocabulary));
  const size_t count = learner.tokens().size();
  return Tokenizer(std::make_shared<Tokenizer::Parts>(
      Tokenizer::Parts{.tokens = std::move(learner.tokens()),
                       .model_tokens = count,
                       .model = ByteLevelBpe(byte_ids, std::move(learner.merges()), count),
                       .added = {}}));
}

}  // namespace rapt::text

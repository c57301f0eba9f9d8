#include "text/bpe/piece_merger.h"

#include <algorithm>

namespace rapt::text {
namespace {

// For a heap whose top is merged first.
constexpr auto kMergedLater = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
};

}  // namespace

void PieceMerger::offer(size_t at) {
  const Symbol& left = symbols_[at];
  if (left.next == kNone) return;
  const uint32_t right = symbols_[left.next].id;
  const MergeTable::Entry* merge = merges_.find(left.id, right);
  if (merge == nullptr) return;
  heap_.push_back({at, merge->rank, left.id, right, merge->id});
  std::ranges::push_heap(heap_, kMergedLater);
}

void PieceMerger::merge_at(const Candidate& candidate) {
  Symbol& left = symbols_[candidate.at];
  if (left.merged || left.id != candidate.left || left.next == kNone) return;
  Symbol& right = symbols_[left.next];
  if (right.id != candidate.right) return;
  right.merged = true;
  left.id = candidate.id;
  left.next = right.next;
  if (left.next != kNone) symbols_[left.next].previous = candidate.at;
  if (left.previous != kNone) offer(left.previous);
  offer(candidate.at);
}

void PieceMerger::merge(std::vector<int64_t>& ids) {
  for (size_t i = 1; i < symbols_.size(); ++i) {
    symbols_[i - 1].next = i;
    symbols_[i].previous = i - 1;
  }
  for (size_t i = 0; i < symbols_.size(); ++i) offer(i);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, kMergedLater);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    merge_at(candidate);
  }
  for (const Symbol& symbol : symbols_)
    if (!symbol.merged) ids.push_back(symbol.id);
}

}  // namespace rapt::text

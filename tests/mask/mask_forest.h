#pragma once
// Random trees of masks, each with its predicate, which shares no code with the library: every mask
// of the catalogue, and one of a user's own.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check/tensors/arrays.h"
#include "check/tensors/random.h"
#include "rapt/mask/and.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/documents_by_starts.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "support/assertions.h"
#include "support/problem_count.h"

namespace laws {

// A custom mask: every third diagonal. Its cover() always returns `some`.
class EveryThird final : public rapt::Mask {
 public:
  const rapt::Declaration& declaration() const noexcept override {
    static const rapt::Declaration kDeclaration{"every-third", "for a test", "none", {}};
    return kDeclaration;
  }
  void check(Shape, int64_t, int64_t) const override {}
  void bind(const rapt::Head& head, rapt::BoundMask* bound) const noexcept override {
    bound->values[0] = head.rank > 0 ? head.index[0] : 0;  // another pattern per batch
  }
  rapt::KeyRange key_range(const rapt::BoundMask& bound, rapt::Positions) const noexcept override {
    return {0, bound.k_len};
  }
  rapt::Cover cover(const rapt::BoundMask&, rapt::Positions,
                    rapt::Positions) const noexcept override {
    return rapt::Cover::some;
  }
  void exclude(const rapt::BoundMask& bound, rapt::Positions queries, rapt::Positions keys,
               uint64_t* bits) const noexcept override {
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        if ((queries[i] + keys[j] + bound.values[0]) % 3 != 0) bits[j] &= ~(uint64_t{1} << i);
  }
};

using Index = std::span<const int64_t>;
using Predicate = std::function<bool(Index leading, int64_t i, int64_t j)>;

struct MaskNode {
  const rapt::Mask* mask = nullptr;
  Predicate allowed;
  char op = 0;  // '&', '|', '!'; 0: a leaf
  std::vector<const MaskNode*> parts;
};

enum class Leaves : uint8_t { all, without_tensors };

// Makes masks over one problem of leading dimensions [2, 3], and keeps them.
class MaskForest {
 public:
  MaskForest(Random& random, int64_t q_len, int64_t k_len)
      : random_(random), q_len_(q_len), k_len_(k_len) {}

  static inline const Dims kLeading{2, 3};

  const MaskNode& tree(int depth, Leaves leaves) {
    if (depth <= 1 || random_.chance(0.25)) return leaf(leaves);
    const char op = random_.pick({'&', '|', '!'});
    MaskNode node;
    node.op = op;
    const int64_t count = op == '!' ? 1 : random_.between(1, 4);
    std::vector<const rapt::Mask*> masks;
    for (int64_t n = 0; n < count; ++n) {
      node.parts.push_back(&tree(depth - 1, leaves));
      masks.push_back(node.parts.back()->mask);
    }
    const std::vector<const MaskNode*> parts = node.parts;
    if (op == '!') {
      node.mask = keep<rapt::Not>(masks[0]);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return !parts[0]->allowed(at, i, j);
      };
    } else if (op == '&') {
      node.mask = keep<rapt::And>(masks);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return std::all_of(parts.begin(), parts.end(),
                           [&](const MaskNode* part) { return part->allowed(at, i, j); });
      };
    } else {
      node.mask = keep<rapt::Or>(masks);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return std::any_of(parts.begin(), parts.end(),
                           [&](const MaskNode* part) { return part->allowed(at, i, j); });
      };
    }
    return nodes_.emplace_back(std::move(node));
  }

  const MaskNode& leaf(Leaves leaves) {
    const int64_t last = (leaves == Leaves::all ? kKinds : kWithoutTensors) - 1;
    return nodes_.emplace_back(leaf_of(random_.between(0, last)));
  }

  // The pairs of a node, element by element: [2, 3, q_len, k_len].
  Tensor pairs(const MaskNode& node) const {
    Tensor allowed(DType::boolean, {2, 3, q_len_, k_len_});
    for_each_index(allowed.dims(), [&](Index at) {
      set(allowed, at, node.allowed(at.subspan(0, 2), at[2], at[3]));
    });
    return allowed;
  }

 private:
  // Kinds of masks below; those without tensors come first, and answer exactly for tiles.
  static constexpr int64_t kWithoutTensors = 3, kKinds = 12;

  MaskNode leaf_of(int64_t kind) {
    MaskNode node;
    const auto anchor = random_.chance(0.5) ? rapt::Anchor::top_left : rapt::Anchor::bottom_right;
    const int64_t o = anchor == rapt::Anchor::top_left ? 0 : k_len_ - q_len_;
    switch (kind) {
      case 0: {
        const int64_t offset = random_.between(-20, 20);
        node.mask = keep<rapt::Causal>(anchor, offset);
        node.allowed = [=](Index, int64_t i, int64_t j) { return j <= i + o + offset; };
        break;
      }
      case 1: {
        const int64_t left = random_.between(-1, 40), right = random_.between(-1, 40);
        node.mask = keep<rapt::Window>(left, right, anchor);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          return (left < 0 || j >= i + o - left) && (right < 0 || j <= i + o + right);
        };
        break;
      }
      case 2: {
        const int64_t length = random_.between(0, k_len_ + 5);
        node.mask = keep<rapt::Prefix>(length);
        node.allowed = [=](Index, int64_t, int64_t j) { return j < length; };
        break;
      }
      case 3:
      case 4: {
        const TensorView lengths = numbers({2, random_.pick({1, 3})}, 0, k_len_);
        node.mask = kind == 3 ? static_cast<rapt::Mask*>(keep<rapt::Prefix>(lengths))
                              : keep<rapt::Lengths>(lengths);
        node.allowed = [=](Index at, int64_t, int64_t j) {
          const int64_t place[] = {at[0], lengths.shape[1] == 1 ? 0 : at[1]};
          return static_cast<double>(j) < get(lengths, place);
        };
        break;
      }
      case 5: {
        Tensor allowed(DType::boolean, {q_len_, k_len_});
        const double density = random_.uniform();
        for_each_index(allowed.dims(), [&](Index i) { set(allowed, i, random_.chance(density)); });
        const TensorView view = tensors_.emplace_back(std::move(allowed));
        node.mask = keep<rapt::Boolean>(view);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          const int64_t place[] = {i, j};
          return get(view, place) != 0;
        };
        break;
      }
      case 6: {  // starts
        const int64_t documents = random_.between(1, 8);
        const TensorView q = starts(documents, q_len_), k = starts(documents, k_len_);
        node.mask = keep<rapt::DocumentsByStarts>(q, k);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          return within(q, documents, i) == within(k, documents, j);
        };
        break;
      }
      case 7:
      case 8: {  // ids, per batch or for all; in order or not
        const bool sorted = kind == 7;
        const TensorView q = ids(q_len_, sorted), k = ids(k_len_, sorted);
        node.mask = keep<rapt::Documents>(q, k);
        node.allowed = [=](Index at, int64_t i, int64_t j) {
          return id_of(q, at, i) == id_of(k, at, j);
        };
        break;
      }
      case 9:
        node.mask = keep<EveryThird>();
        node.allowed = [](Index at, int64_t i, int64_t j) { return (i + j + at[0]) % 3 == 0; };
        break;
      case 10:
      case 11: {  // anchored at the length of each batch
        const TensorView lengths = numbers({2, random_.pick({1, 3})}, 0, k_len_);
        const int64_t left = kind == 10 ? -1 : random_.between(-1, 40);
        const int64_t right = random_.between(kind == 10 ? -20 : 0, 20), q_len = q_len_;
        node.mask = kind == 10 ? static_cast<rapt::Mask*>(keep<rapt::Causal>(lengths, right))
                               : keep<rapt::Window>(left, right, lengths);
        node.allowed = [=](Index at, int64_t i, int64_t j) {
          const int64_t place[] = {at[0], lengths.shape[1] == 1 ? 0 : at[1]};
          const int64_t own = i + static_cast<int64_t>(get(lengths, place)) - q_len;
          return (left < 0 || j >= own - left) && j <= own + right;
        };
        break;
      }
      default:
        throw std::logic_error("kKinds counts a kind that is not there");
    }
    return node;
  }

  template <class M, class... A>
  M* keep(A&&... arguments) {
    auto mask = std::make_unique<M>(std::forward<A>(arguments)...);
    M* const pointer = mask.get();
    masks_.push_back(std::move(mask));
    return pointer;
  }

  TensorView numbers(const Dims& dims, int64_t least, int64_t most) {
    Tensor tensor(DType::i64, dims);
    for (int64_t& x : tensor.values<int64_t>()) x = random_.between(least, most);
    return tensors_.emplace_back(std::move(tensor));
  }
  TensorView starts(int64_t documents, int64_t length) {  // empty documents included
    const TensorView view = numbers({documents + 1}, 0, length);
    const auto values = tensors_.back().values<int64_t>();
    values.front() = 0;
    values.back() = length;
    std::sort(values.begin(), values.end());
    return view;
  }
  TensorView ids(int64_t length, bool sorted) {
    const bool shared = random_.chance(0.4);
    const Dims dims = shared ? Dims{length} : Dims{2, length};
    const int64_t most = sorted ? 5 : 1;  // two ids in any order leave some tiles all or none
    const TensorView view = numbers(dims, sorted ? -5 : 0, most);
    const auto values = tensors_.back().values<int64_t>();
    for (size_t row = 0; sorted && row < values.size(); row += static_cast<size_t>(length))
      std::sort(values.begin() + static_cast<int64_t>(row),
                values.begin() + static_cast<int64_t>(row) + length);
    if (random_.chance(0.3)) {  // any strides: every element at a distance of 3
      tensors_.emplace_back(DType::i64, Dims{dims.front(), length, 3});
      if (!shared) {
        for_each_index(view.dims(), [&](Index at) {
          const int64_t place[] = {at[0], at[1], 1};
          set(tensors_.back(), place, get(view, at));
        });
        TensorView wide = tensors_.back().view().slice(2, 1, 2);
        wide.rank = 2;
        return wide;
      }
    }
    return view;
  }
  static int64_t id_of(const TensorView& ids, Index at, int64_t position) {
    const int64_t shared[] = {position}, own[] = {at[0], position};
    return static_cast<int64_t>(ids.rank == 1 ? get(ids, shared) : get(ids, own));
  }
  static int64_t within(const TensorView& starts, int64_t documents, int64_t position) {
    const auto* values = static_cast<const int64_t*>(starts.data);
    for (int64_t d = 0; d < documents; ++d)
      if (values[d] <= position && position < values[d + 1]) return d;
    return -1;
  }

  Random& random_;
  int64_t q_len_, k_len_;
  std::deque<MaskNode> nodes_;
  std::deque<std::unique_ptr<rapt::Mask>> masks_;
  std::deque<Tensor> tensors_;
};

}  // namespace laws

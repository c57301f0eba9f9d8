#pragma once
// Random trees of masks, each with its predicate, which shares no code with the library
// (check/reference/masks): every mask of the catalogue, one of a user's own and one of a function.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "check/draw/drawn_mask.h"
#include "rapt/masks.h"
#include "rapt/predicate_mask.h"
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
  MaskForest(Random& random, int64_t q_len, int64_t k_len) : random_(random) {
    set_leading(problem_, kLeading);
    problem_.q_len = q_len;
    problem_.k_len = k_len;
  }

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
    const bool own = leaves == Leaves::all && random_.chance(0.08);
    return nodes_.emplace_back(own ? own_leaf() : known_leaf(leaves == Leaves::all));
  }

  // The pairs of a node, element by element: [2, 3, q_len, k_len].
  Tensor pairs(const MaskNode& node) const {
    Tensor allowed(DType::boolean, {2, 3, problem_.q_len, problem_.k_len});
    for_each_index(allowed.dims(), [&](Index at) {
      set(allowed, at, node.allowed(at.subspan(0, 2), at[2], at[3]));
    });
    return allowed;
  }

 private:
  MaskNode own_leaf() {
    MaskNode node;
    if (random_.chance(0.5)) {
      // Blocks of all kinds, by head.
      const auto allowed = [](int64_t i, int64_t j, int64_t head) {
        const int64_t kind = (i / 70 + j / 50 + head) % 3;
        return kind == 0 || (kind == 1 && (i + j) % 4 == 0);
      };
      node.mask = keep<rapt::PredicateMask>(
          allowed,
          rapt::PredicateSizes{.q_len = problem_.q_len, .k_len = problem_.k_len, .heads = 3});
      node.allowed = [allowed](Index at, int64_t i, int64_t j) { return allowed(i, j, at[1]); };
      return node;
    }
    node.mask = keep<EveryThird>();
    node.allowed = [](Index at, int64_t i, int64_t j) { return (i + j + at[0]) % 3 == 0; };
    return node;
  }

  // A mask of the catalogue. Those without tensors answer exactly for tiles.
  MaskNode known_leaf(bool tensors) {
    MaskSpec spec = check::drawn_leaf(random_, problem_, tensors);
    const int64_t q_len = problem_.q_len, k_len = problem_.k_len;
    spec.draw(random_, q_len, k_len, tensors_);
    for (TensorView& tensor : spec.tensors)
      if (tensor.defined())
        tensor =
            strided_.emplace_back(tensor, static_cast<Layout>(random_.between(0, kLayouts - 1)));
    MaskNode node;
    node.mask = masks_.emplace_back(spec.make()).get();
    node.allowed = [spec, q_len, k_len](Index at, int64_t i, int64_t j) {
      return spec.allowed({at, kLeading, i, j, q_len, k_len});
    };
    return node;
  }

  template <class M, class... A>
  M* keep(A&&... arguments) {
    auto mask = std::make_unique<M>(std::forward<A>(arguments)...);
    M* const pointer = mask.get();
    masks_.push_back(std::move(mask));
    return pointer;
  }

  Random& random_;
  std::deque<MaskNode> nodes_;
  std::deque<std::unique_ptr<rapt::Mask>> masks_;
  std::vector<Tensor> tensors_;
  std::deque<Strided> strided_;
  Descriptor problem_;
};

}  // namespace laws

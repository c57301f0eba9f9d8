#include "ratio/layout_cases.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "goals.h"
#include "rapt/mask/bigbird.h"
#include "rapt/mask/blocks.h"
#include "rapt/mask/causal.h"
#include "rapt/predicate_mask.h"
#include "ratio/option_call.h"

namespace bench {
namespace {

constexpr int64_t kHeads = 2;

class MaskedCall {  // with a mask of its own
 public:
  MaskedCall(std::unique_ptr<const rapt::Mask> mask, int64_t n, bool with_backward)
      : mask_(std::move(mask)), call_(options(mask_.get()), kHeads, n, with_backward) {}
  void call() { call_.call(); }

 private:
  static rapt::AttentionOptions options(const rapt::Mask* mask) {
    rapt::AttentionOptions options;
    options.masks = {mask};
    return options;
  }
  std::unique_ptr<const rapt::Mask> mask_;
  OptionCall call_;
};

rapt::BigBird bigbird() { return {64, 3, 1, 3}; }

// The lists of BigBird's blocks, and a mask over them.
class BigBirdLists {
 public:
  explicit BigBirdLists(int64_t n) {
    const rapt::BigBird mask = bigbird();
    std::vector<int64_t> starts, indices;
    for (int64_t head = 0; head < kHeads; ++head) {
      rapt::BoundMask bound{&mask, nullptr, {}, n, n};
      mask.bind({&head, 1, n, n}, &bound);
      starts.push_back(static_cast<int64_t>(indices.size()));
      for (int64_t row = 0; row < n / mask.block; ++row) {
        for (rapt::KeyRange run{}; run.begin < n; run.begin = run.end) {
          run = mask.next_run(bound, {row * mask.block, 1, mask.block}, run.begin);
          for (int64_t key = run.begin; key < run.end; key += mask.block)
            indices.push_back(key / mask.block);
        }
        starts.push_back(static_cast<int64_t>(indices.size()));
      }
    }
    const auto rows = static_cast<int64_t>(starts.size()) / kHeads;
    starts_ = rapt::Tensor(rapt::DType::i64, {kHeads, rows});
    indices_ = rapt::Tensor(rapt::DType::i64, {static_cast<int64_t>(indices.size())});
    std::copy(starts.begin(), starts.end(), starts_.values<int64_t>().begin());
    std::copy(indices.begin(), indices.end(), indices_.values<int64_t>().begin());
  }
  std::unique_ptr<const rapt::Mask> mask() const {
    const int64_t block = bigbird().block;
    return std::make_unique<rapt::Blocks>(block, block, starts_.view(), indices_.view());
  }

 private:
  rapt::Tensor starts_, indices_;
};

template <class Make>
std::function<Call()> call_with(const Make& make, int64_t n, bool with_backward) {
  return [=]() -> Call {
    const auto problem = std::make_shared<MaskedCall>(make(), n, with_backward);
    return [problem] { problem->call(); };
  };
}

}  // namespace

std::vector<RatioCase> layout_cases(int64_t n) {
  const auto formula = [] { return std::make_unique<const rapt::BigBird>(bigbird()); };
  const auto causal = [] { return std::make_unique<const rapt::Causal>(); };
  const auto predicate = [n] {
    return std::make_unique<const rapt::PredicateMask>(
        [](int64_t i, int64_t j, int64_t) { return j <= i; },
        rapt::PredicateSizes{.q_len = n, .k_len = n});
  };
  std::vector<RatioCase> cases;
  for (const bool backward : {false, true}) {
    const std::string length = (backward ? ", both ways n=" : " n=") + std::to_string(n);
    const auto lists = [n, backward]() -> Call {
      const auto owner = std::make_shared<BigBirdLists>(n);
      const auto problem = std::make_shared<MaskedCall>(owner->mask(), n, backward);
      return [owner, problem] { problem->call(); };
    };
    cases.push_back({"bigbird by lists" + length, call_with(formula, n, backward), lists,
                     on_this_core({1.05, 1.05})});
    cases.push_back({"causal as a predicate" + length, call_with(causal, n, backward),
                     call_with(predicate, n, backward), on_this_core({1.1, 1.1})});
  }
  return cases;
}

}  // namespace bench

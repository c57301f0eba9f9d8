#include "cli/train/examples/reformer_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>

#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/method/lsh.h"
#include "rapt/nn/adam.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/feed_forward.h"
#include "rapt/nn/init.h"
#include "rapt/nn/layer_norm.h"
#include "rapt/nn/schedule.h"

namespace rapt::cli {
namespace {

constexpr int64_t kReformerWord = 127;                   // symbols of a half
constexpr int64_t kReformerClasses = kReformerWord + 1;  // 127 symbols and the separator
constexpr int64_t kReformerHalf = kReformerWord + 1;     // with its separator
constexpr int64_t kReformerTokens = 2 * kReformerHalf;   // of a sequence
constexpr int64_t kReformerFeatures = 128, kReformerHeads = 4;
constexpr int64_t kReformerHeadDim = kReformerFeatures / kReformerHeads;
constexpr int64_t kReformerChunk = 16;
constexpr int64_t kReformerBatch = 16;  // sequences of an update, and of a test
constexpr int64_t kReformerDraws = 4;   // of rotations, in a test
constexpr int64_t kReformerNoTarget = -100;
constexpr double kReformerRate = 2e-3;
constexpr int64_t kReformerWarmup = 200;
constexpr int64_t kTestedRounds[] = {1, 2, 4, 8, 0};

struct ReformerModel {
  nn::Embedding embedding = nn::make_embedding(kReformerClasses, kReformerFeatures);
  nn::Embedding positions = nn::make_embedding(kReformerTokens, kReformerFeatures);
  nn::LayerNorm norm1 = nn::make_layer_norm(kReformerFeatures);
  nn::Linear query_key = nn::make_linear(kReformerFeatures, kReformerFeatures, false);
  nn::Linear value = nn::make_linear(kReformerFeatures, kReformerFeatures, false);
  nn::Linear out = nn::make_linear(kReformerFeatures, kReformerFeatures, false);
  nn::LayerNorm norm2 = nn::make_layer_norm(kReformerFeatures);
  nn::FeedForward network = nn::make_feed_forward(kReformerFeatures, kReformerFeatures);
  nn::LayerNorm norm3 = nn::make_layer_norm(kReformerFeatures);
  nn::Linear head = nn::make_linear(kReformerFeatures, kReformerClasses);

  ReformerModel() { embedding.weight.init = positions.weight.init = nn::Init::normal(0.02); }

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("embedding", model.embedding);
    f("positions", model.positions);
    f("norm1", model.norm1);
    f("query_key", model.query_key);
    f("value", model.value);
    f("out", model.out);
    f("norm2", model.norm2);
    f("network", model.network);
    f("norm3", model.norm3);
    f("head", model.head);
  }
};

struct ReformerBatch {
  std::vector<int64_t> tokens, targets, positions;  // [kReformerBatch, kReformerTokens]

  static TensorView view(const std::vector<int64_t>& values) {
    return {values.data(), {kReformerBatch, kReformerTokens}};
  }
};

ReformerBatch draw_reformer_batch(std::mt19937_64& random) {
  ReformerBatch batch;
  std::vector<int64_t> half(kReformerHalf);  // the first is the separator
  for (int64_t s = 0; s < kReformerBatch; ++s) {
    for (int64_t i = 1; i < kReformerHalf; ++i)
      half[static_cast<size_t>(i)] = 1 + static_cast<int64_t>(random() % kReformerWord);
    for (int repeat = 0; repeat < 2; ++repeat)
      batch.tokens.insert(batch.tokens.end(), half.begin(), half.end());
    batch.targets.insert(batch.targets.end(), kReformerHalf, kReformerNoTarget);
    batch.targets.insert(batch.targets.end(), half.begin() + 1, half.end());
    batch.targets.push_back(kReformerNoTarget);
    for (int64_t i = 0; i < kReformerTokens; ++i) batch.positions.push_back(i);
  }
  return batch;
}

// A tensor [batch, tokens, features] as attention reads it: [batch, heads, tokens, head_dim].
TensorView reformer_heads(const TensorView& x) {
  return TensorView(static_cast<float*>(x.data),
                    {kReformerBatch, kReformerTokens, kReformerHeads, kReformerHeadDim})
      .transposed(1, 2);
}

// What a forward call leaves for the backward call.
struct ReformerState {
  TensorView x, normed1, query, value, attention, statistic, h, normed2, y, normed3, logits, lse;
  nn::LayerNorm::State norm1, norm2, norm3;
  nn::FeedForward::State network;

  ReformerState(const ReformerModel& model, nn::Arena& memory)
      : statistic(memory.take(DType::f32, {kReformerBatch, kReformerHeads, kReformerTokens})),
        lse(memory.take(DType::f64, {kReformerBatch, kReformerTokens})) {
    for (TensorView* tensor :
         {&x, &normed1, &query, &value, &attention, &h, &normed2, &y, &normed3})
      *tensor = take(memory);
    logits = memory.take(DType::f32, {kReformerBatch, kReformerTokens, kReformerClasses});
    norm1 = make_state(model.norm1, x.dims(), DType::f32, memory);
    norm2 = make_state(model.norm2, x.dims(), DType::f32, memory);
    norm3 = make_state(model.norm3, x.dims(), DType::f32, memory);
    network = make_state(model.network, x.dims(), memory);
  }

  static TensorView take(nn::Arena& memory) {
    return memory.take(DType::f32, {kReformerBatch, kReformerTokens, kReformerFeatures});
  }
};

// The options of attention, which refer to mask and method.
class ReformerAttention {
 public:
  // `rounds`: 0 puts all tokens into one chunk.
  ReformerAttention(int64_t rounds, int64_t seed) : lsh_(std::max<int64_t>(1, rounds)) {
    lsh_.chunk = rounds > 0 ? kReformerChunk : kReformerTokens;
    lsh_.duplicates = LshDuplicates::count_all;
    lsh_.seed = seed;
    options_.masks = {&causal_};
    options_.scale = 1;  // keys have a length of 1
    options_.method = &lsh_;
  }
  ReformerAttention(const ReformerAttention&) = delete;  // options refer to members
  ReformerAttention& operator=(const ReformerAttention&) = delete;

  void forward(const ReformerState& s, const nn::Run& run) const {
    const TensorView query = reformer_heads(s.query), value = reformer_heads(s.value);
    if (run.counts())
      return run.scratch.need(workspace_bytes(query, query, value, options_, run.context));
    scaled_dot_product_attention(query, query, value, options_,
                                 {.state = {reformer_heads(s.attention), s.statistic}},
                                 run.scratch.rest(), run.context);
  }

  // d_query has the gradients of both sides of the scores.
  void backward(const ReformerState& s, const TensorView& d_attention, const TensorView& d_query,
                const TensorView& d_value, const nn::Run& run) const {
    const TensorView query = reformer_heads(s.query), value = reformer_heads(s.value);
    const BackwardRequest request{.key = false};
    if (run.counts())
      return run.scratch.need(
          backward_workspace_bytes(query, query, value, options_, request, run.context));
    scaled_dot_product_attention_backward(
        query, query, value, options_,
        {.state = {reformer_heads(s.attention), s.statistic},
         .d_output = reformer_heads(d_attention)},
        request, {.d_query = reformer_heads(d_query), .d_value = reformer_heads(d_value)},
        run.scratch.rest(), run.context);
  }

 private:
  Causal causal_;
  Lsh lsh_;
  AttentionOptions options_;
};

void copy_rows(const TensorView& from, const TensorView& to, const nn::Run& run) {
  if (run.counts()) return;
  std::memcpy(to.data, from.data, static_cast<size_t>(from.count()) * sizeof(float));
}

void forward_reformer(const ReformerModel& model, const ReformerBatch& batch,
                      const ReformerAttention& attention, const ReformerState& s,
                      const nn::Run& run) {
  forward(model.embedding, batch.view(batch.tokens), s.x, run);
  forward(model.positions, batch.view(batch.positions), s.x, run, true);
  forward(model.norm1, s.x, s.normed1, s.norm1, run);
  forward(model.query_key, s.normed1, s.query, run);
  forward(model.value, s.normed1, s.value, run);
  attention.forward(s, run);
  copy_rows(s.x, s.h, run);
  forward(model.out, s.attention, s.h, run, {.add = true});
  forward(model.norm2, s.h, s.normed2, s.norm2, run);
  copy_rows(s.h, s.y, run);
  forward(model.network, s.normed2, s.y, s.network, run, true);
  forward(model.norm3, s.y, s.normed3, s.norm3, run);
  forward(model.head, s.normed3, s.logits, run);
}

// From the gradient of the logits, which stands in their place.
void backward_reformer(ReformerModel& model, const ReformerBatch& batch,
                       const ReformerAttention& attention, const ReformerState& s,
                       const nn::Run& run) {
  const nn::Arena::Frame frame(run.scratch);
  TensorView d_h, d_normed, d_attention, d_query, d_value;
  for (TensorView* tensor : {&d_h, &d_normed, &d_attention, &d_query, &d_value})
    *tensor = ReformerState::take(run.scratch);
  backward(model.head, s.normed3, s.logits, d_normed, run);
  backward(model.norm3, s.y, d_normed, s.norm3, d_h, run);
  backward(model.network, s.normed2, d_h, s.network, d_normed, run);
  backward(model.norm2, s.h, d_normed, s.norm2, d_h, run, true);
  backward(model.out, s.attention, d_h, d_attention, run);
  attention.backward(s, d_attention, d_query, d_value, run);
  backward(model.query_key, s.normed1, d_query, d_normed, run);
  backward(model.value, s.normed1, d_value, d_normed, run, true);
  backward(model.norm1, s.x, d_normed, s.norm1, d_h, run, true);
  backward(model.positions, batch.view(batch.positions), d_h, run);
  backward(model.embedding, batch.view(batch.tokens), d_h, run);
}

// Returns the loss, and adds to the gradients of the model. If `memory` counts, it counts what the
// call needs and computes nothing.
double reformer_gradients(ReformerModel& model, const ReformerBatch& batch, int64_t seed,
                          nn::Arena& memory, const Context& context) {
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context, .training = true};
  const nn::CrossEntropyOptions options{.ignore_index = kReformerNoTarget};
  const ReformerAttention attention(kReformerRounds, seed);
  const ReformerState s(model, memory);
  const TensorView targets = batch.view(batch.targets);
  forward_reformer(model, batch, attention, s, run);
  const double loss = cross_entropy(s.logits, targets, s.lse, run, options);
  cross_entropy_gradient(s.logits, targets, s.lse, s.logits, run, options);
  backward_reformer(model, batch, attention, s, run);
  return loss;
}

// The share of targets that have the largest logit.
double right_symbols(const ReformerModel& model, const ReformerBatch& batch, int64_t rounds,
                     int64_t seed, nn::Arena& memory, const Context& context) {
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context};
  const ReformerState s(model, memory);
  forward_reformer(model, batch, ReformerAttention(rounds, seed), s, run);
  if (run.counts()) return 0;
  int64_t right = 0, all = 0;
  const auto* logits = static_cast<const float*>(s.logits.data);
  for (const int64_t target : batch.targets) {
    if (target != kReformerNoTarget) {
      right += std::max_element(logits, logits + kReformerClasses) - logits == target;
      ++all;
    }
    logits += kReformerClasses;
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

// Memory for an update and for the tests.
std::vector<std::byte> reformer_memory(ReformerModel& model, const Context& context) {
  nn::Arena counter;
  std::mt19937_64 random;
  const ReformerBatch batch = draw_reformer_batch(random);
  reformer_gradients(model, batch, 0, counter, context);
  for (const int64_t rounds : kTestedRounds)
    right_symbols(model, batch, rounds, 0, counter, context);
  return std::vector<std::byte>(counter.bytes());
}

}  // namespace

std::vector<ReformerAccuracy> train_reformer_copy(const CopyTask& task, const Context& context) {
  ReformerModel model;
  nn::initialize(model, task.seed);
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  nn::Adam adam{std::span<nn::Parameter* const>(parameters)};
  std::vector<std::byte> bytes = reformer_memory(model, context);
  nn::Arena memory(bytes);
  std::mt19937_64 random(task.seed);

  const auto work = static_cast<double>(task.steps + std::ssize(kTestedRounds));
  double done = 0;
  const auto progress = [&] {
    if (task.progress) task.progress(++done / work);
  };
  // After the warm-up the rate stays.
  const nn::WarmupCosine schedule{.peak = kReformerRate,
                                  .warmup_steps = kReformerWarmup,
                                  .total_steps = std::max(task.steps, kReformerWarmup),
                                  .min_ratio = 1};
  for (int64_t step = 0; step < task.steps; ++step) {
    nn::clear_gradients(parameters);
    const double loss =
        reformer_gradients(model, draw_reformer_batch(random), step, memory, context);
    adam.step(nn::learning_rate(schedule, step), context);
    progress();
    if (task.after_step) task.after_step(step + 1, loss);
  }
  const ReformerBatch unseen = draw_reformer_batch(random);
  std::vector<ReformerAccuracy> accuracy;
  for (const int64_t rounds : kTestedRounds) {
    double right = 0;
    for (int64_t draw = 0; draw < kReformerDraws; ++draw)
      right += right_symbols(model, unseen, rounds, task.steps + draw, memory, context);
    accuracy.push_back({rounds, right / static_cast<double>(kReformerDraws)});
    progress();
  }
  return accuracy;
}

}  // namespace rapt::cli

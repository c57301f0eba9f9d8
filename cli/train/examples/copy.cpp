#include "cli/train/examples/copy.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/clip.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/gpt.h"
#include "rapt/nn/schedule.h"

namespace rapt::cli {
namespace {

constexpr int64_t kCopyAlphabet = 16;
constexpr int64_t kCopySeparator = kCopyAlphabet;    // the token after the last symbol
constexpr int64_t kCopyTokens = 2 * kCopiedSymbols;  // of an input
constexpr int64_t kCopyNoTarget = -100;
constexpr int64_t kCopyBatch = 32;       // sequences of an update
constexpr int64_t kCopyTestBatch = 100;  // sequences that are decoded at once
// The loss is near 0 after 100 updates with these; a smaller rate needs more.
constexpr double kCopyLearningRate = 0.01;
constexpr int64_t kCopyWarmup = 20;

// The table has rows for the distances -32 to 32.
nn::Gpt make_copy_model() {
  return nn::make_gpt({.vocabulary = kCopyAlphabet + 1,
                       .context = kCopyTokens,
                       .layers = 2,
                       .heads = 4,
                       .features = 32,
                       .attention = {.relative = "relative(key_rows=learned[65])"}});
}

struct CopyBatch {
  std::vector<int64_t> tokens, targets;  // [sequences, kCopyTokens]
};

CopyBatch draw_copies(int64_t sequences, std::mt19937_64& random) {
  CopyBatch batch;
  std::vector<int64_t> symbols(kCopiedSymbols);
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t& symbol : symbols) symbol = static_cast<int64_t>(random() % kCopyAlphabet);
    batch.tokens.insert(batch.tokens.end(), symbols.begin(), symbols.end());
    batch.tokens.push_back(kCopySeparator);
    batch.tokens.insert(batch.tokens.end(), symbols.begin(), symbols.end() - 1);
    batch.targets.insert(batch.targets.end(), kCopiedSymbols, kCopyNoTarget);
    batch.targets.insert(batch.targets.end(), symbols.begin(), symbols.end());
  }
  return batch;
}

TensorView tokens_of(const std::vector<int64_t>& tokens, int64_t length = kCopyTokens) {
  return {tokens.data(), {static_cast<int64_t>(tokens.size()) / length, length}};
}

// A forward and a backward call: returns the loss, and adds to the gradients of the model. If
// `memory` counts, it counts what the call needs and computes nothing.
double copy_gradients(nn::Gpt& model, const CopyBatch& batch, nn::Arena& memory,
                      const Context& context) {
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context, .training = true};
  const nn::CrossEntropyOptions options{.ignore_index = kCopyNoTarget};
  const TensorView tokens = tokens_of(batch.tokens), targets = tokens_of(batch.targets);
  const int64_t sequences = tokens.shape[0];
  const TensorView logits = memory.take(DType::f32, {sequences, kCopyTokens, model.wte.count()});
  const TensorView lse = memory.take(DType::f64, {sequences, kCopyTokens});
  const nn::Gpt::State state = make_state(model, sequences, kCopyTokens, memory);

  forward(model, tokens, logits, state, run);
  const double loss = cross_entropy(logits, targets, lse, run, options);
  cross_entropy_gradient(logits, targets, lse, logits, run, options);
  backward(model, tokens, logits, state, run);
  return loss;
}

// The most likely token behind each sequence of tokens [sequences, length].
std::vector<int64_t> next_tokens(const nn::Gpt& model, const TensorView& tokens, nn::Arena& memory,
                                 const Context& context) {
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context};
  const int64_t sequences = tokens.shape[0], length = tokens.shape[1], count = model.wte.count();
  const TensorView logits = memory.take(DType::f32, {sequences, length, count});
  const nn::Gpt::State state = make_state(model, sequences, length, memory);
  forward(model, tokens, logits, state, run);

  std::vector<int64_t> next;
  for (int64_t s = 0; s < sequences && !run.counts(); ++s) {
    const float* last = static_cast<const float*>(logits.data) + ((s + 1) * length - 1) * count;
    next.push_back(std::max_element(last, last + count) - last);
  }
  return next;
}

// How many of kCopyTestBatch new sequences are copied. There are 16^16: those that are drawn here
// were not drawn before.
int64_t copied_of_batch(const nn::Gpt& model, std::mt19937_64& random, nn::Arena& memory,
                        const Context& context, const std::function<void()>& after_token) {
  const CopyBatch batch = draw_copies(kCopyTestBatch, random);
  // Each sequence begins with its symbols and the separator, and grows by what the model says.
  std::vector<std::vector<int64_t>> said;
  for (auto s = batch.tokens.begin(); s != batch.tokens.end(); s += kCopyTokens)
    said.emplace_back(s, s + kCopiedSymbols + 1);
  for (int64_t t = 0; t < kCopiedSymbols; ++t) {
    std::vector<int64_t> tokens;
    for (const auto& sequence : said) tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    const std::vector<int64_t> next =
        next_tokens(model, tokens_of(tokens, kCopiedSymbols + 1 + t), memory, context);
    for (size_t s = 0; s < said.size(); ++s) said[s].push_back(next[s]);
    after_token();
  }
  return std::count_if(said.begin(), said.end(), [](const std::vector<int64_t>& sequence) {
    return std::equal(sequence.begin(), sequence.begin() + kCopiedSymbols,
                      sequence.begin() + kCopiedSymbols + 1);
  });
}

// Memory for an update and for a test.
std::vector<std::byte> copy_memory(nn::Gpt& model, const Context& context) {
  nn::Arena counter;
  std::mt19937_64 random;
  copy_gradients(model, draw_copies(kCopyBatch, random), counter, context);
  next_tokens(model, tokens_of(draw_copies(kCopyTestBatch, random).tokens), counter, context);
  return std::vector<std::byte>(counter.bytes());
}

}  // namespace

int64_t train_copy(const CopyTask& task, const Context& context) {
  nn::Gpt model = make_copy_model();
  nn::initialize_gpt(model, task.seed);
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  nn::AdamW adam(nn::named_parameters(model), {.beta2 = 0.99});
  std::vector<std::byte> bytes = copy_memory(model, context);
  nn::Arena memory(bytes);
  std::mt19937_64 random(task.seed);

  constexpr int64_t kBatches = kCopySequences / kCopyTestBatch;
  // A decoded token of a batch takes about as long as an update.
  const auto work = static_cast<double>(task.steps + kBatches * kCopiedSymbols);
  double done = 0;
  const auto progress = [&] {
    if (task.progress) task.progress(++done / work);
  };

  const nn::WarmupCosine schedule{.peak = kCopyLearningRate,
                                  .warmup_steps = std::min(kCopyWarmup, task.steps),
                                  .total_steps = task.steps};
  for (int64_t step = 0; step < task.steps; ++step) {
    nn::clear_gradients(parameters);
    const double loss = copy_gradients(model, draw_copies(kCopyBatch, random), memory, context);
    nn::clip_gradients(parameters, 1, context);
    adam.step(nn::learning_rate(schedule, step), context);
    progress();
    if (task.after_step) task.after_step(step + 1, loss);
  }
  int64_t copied = 0;
  for (int64_t batch = 0; batch < kBatches; ++batch)
    copied += copied_of_batch(model, random, memory, context, progress);
  return copied;
}

}  // namespace rapt::cli

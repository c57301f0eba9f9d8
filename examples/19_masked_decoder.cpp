// A masked decoder layer with cross attention learns to reverse a sequence.
//
//   source  s_0 ... s_7 of 16 symbols; memory = symbols[source] + places
//   input   start, r_0 ... r_6 with r_t = s_(7 - t); x = symbols[input] + places
//   logits  = head(decoder(x, memory)); the target of place t is r_t
//
// The causal mask hides later inputs. The exit status is 1 unless outputs before a changed input
// keep all their bits, and all 4,000 places of 500 unseen sequences are right (of 16^8 sequences).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/decoder_layer.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/init.h"
#include "rapt/nn/schedule.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::TensorView;

constexpr int64_t kSymbols = 16, kLength = 8, kFeatures = 32, kHeads = 4;
constexpr int64_t kBatch = 64, kSteps = 200, kTests = 500;
constexpr int64_t kStart = kSymbols;  // the token after the last symbol
const rapt::Context context;

struct Reverser {
  nn::Embedding symbols = nn::make_embedding(kSymbols + 1, kFeatures);
  nn::Embedding places = nn::make_embedding(kLength, kFeatures);
  nn::DecoderLayer decoder = nn::make_decoder_layer(
      kFeatures, kHeads, {.norm_first = true, .self_attention = {.mask = "causal"}});
  nn::Linear head = nn::make_linear(kFeatures, kSymbols);

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("symbols", model.symbols);
    f("places", model.places);
    f("decoder", model.decoder);
    f("head", model.head);
  }
};

struct Batch {
  rapt::Tensor source, input, target, places;  // [sequences, kLength] i64
};

// Writes logits [sequences, kLength, kSymbols]. In training, overwrites them by their gradients,
// adds to the gradients of the model and returns the loss.
double run_model(Reverser& model, const Batch& batch, bool training, const TensorView& logits,
                 nn::Arena& arena) {
  const nn::Arena::Frame frame(arena);
  const nn::Run run{.scratch = arena, .context = context, .training = training};
  const TensorView source = batch.source, input = batch.input, places = batch.places;
  const auto take = [&] { return arena.take(DType::f32, {source.shape[0], kLength, kFeatures}); };
  const TensorView memory = take(), x = take(), y = take();
  const auto state = make_state(model.decoder, x.dims(), memory.dims(), arena);
  forward(model.symbols, source, memory, run);
  forward(model.places, places, memory, run, true);  // adds
  forward(model.symbols, input, x, run);
  forward(model.places, places, x, run, true);
  forward(model.decoder, x, memory, y, state, run);
  forward(model.head, y, logits, run);
  if (!training) return 0;

  const TensorView d_memory = take(), d_x = take(), d_y = take();
  const TensorView lse = arena.take(DType::f64, source.dims());
  const double loss = cross_entropy(logits, batch.target, lse, run);
  cross_entropy_gradient(logits, batch.target, lse, logits, run);
  backward(model.head, y, logits, d_y, run);
  if (!run.counts()) std::fill_n(static_cast<float*>(d_memory.data), d_memory.count(), 0.0f);
  backward(model.decoder, x, memory, d_y, state, d_x, d_memory, run);  // adds to d_memory
  for (const TensorView& d : {d_memory, d_x}) backward(model.places, places, d, run);
  backward(model.symbols, source, d_memory, run);
  backward(model.symbols, input, d_x, run);
  return loss;
}

Batch draw(int64_t sequences, std::mt19937_64& random) {
  const auto tokens = [&] { return rapt::Tensor(DType::i64, {sequences, kLength}); };
  Batch batch{tokens(), tokens(), tokens(), tokens()};
  const auto source = batch.source.values<int64_t>(), target = batch.target.values<int64_t>();
  for (int64_t& symbol : source) symbol = static_cast<int64_t>(random() % kSymbols);
  for (size_t i = 0; i < source.size(); ++i) {
    const size_t place = i % kLength;
    target[i] = source[i + kLength - 1 - 2 * place];
    batch.input.values<int64_t>()[i] = place == 0 ? kStart : target[i - 1];
    batch.places.values<int64_t>()[i] = static_cast<int64_t>(place);
  }
  return batch;
}

// Changes the input of a place: do the outputs before it keep their bits, and the others change?
bool is_causal(Reverser& model, Batch one, nn::Arena& arena) {
  constexpr int64_t kPlace = kLength / 2;
  float before[kLength][kSymbols], after[kLength][kSymbols];
  run_model(model, one, false, TensorView(&before[0][0], {1, kLength, kSymbols}), arena);
  one.input.values<int64_t>()[kPlace] = kStart;  // no symbol
  run_model(model, one, false, TensorView(&after[0][0], {1, kLength, kSymbols}), arena);
  return std::equal(before[0], before[kPlace], after[0]) &&
         !std::equal(before[kPlace], before[kLength], after[kPlace]);
}

// How many places are right, given the right ones before. If all are, so is greedy decoding.
int64_t right_places(const Batch& batch, const rapt::Tensor& logits) {
  const float* row = logits.values<float>().data();
  int64_t right = 0;
  for (const int64_t target : batch.target.values<int64_t>()) {
    right += std::max_element(row, row + kSymbols) - row == target;
    row += kSymbols;
  }
  return right;
}

}  // namespace

int main() {
  Reverser model;
  nn::initialize(model, 1);
  std::mt19937_64 random(1);
  const Batch tests = draw(kTests, random);
  rapt::Tensor logits(DType::f32, {kTests, kLength, kSymbols});
  const TensorView train_logits = logits.view().slice(0, 0, kBatch);
  nn::Arena counter;  // without memory: counts
  run_model(model, draw(kBatch, random), true, train_logits, counter);
  run_model(model, tests, false, logits, counter);
  std::vector<std::byte> bytes(counter.bytes());
  nn::Arena arena(bytes);
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  nn::Adam adam(nn::named_parameters(model));
  for (int64_t step = 0; step < kSteps; ++step) {
    nn::clear_gradients(parameters);
    const double loss = run_model(model, draw(kBatch, random), true, train_logits, arena);
    adam.step(nn::learning_rate({.peak = 0.005, .warmup_steps = 20, .total_steps = kSteps}, step));
    if (step % 40 == 39) std::printf("step %3d: loss %.6f\n", int(step + 1), loss);
  }
  const bool causal = is_causal(model, draw(1, random), arena);
  std::printf("a changed input changes the outputs from its place on: %s\n", causal ? "yes" : "no");
  run_model(model, tests, false, logits, arena);
  const int64_t right = right_places(tests, logits);
  std::printf("%d of %d places of unseen sequences right\n", int(right), int(kTests * kLength));
  return causal && right == kTests * kLength ? 0 : 1;
}

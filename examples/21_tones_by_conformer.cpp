// Tells tones apart: steady, rising, falling, two tones in turn, vibrato. A Conformer block of
// rapt::nn learns it from waveforms in noise.
//
// Each sequence is a waveform of 1568 samples with a tone in noise. Pitch, loudness, phase, onset,
// end, noise, and how far and how fast the pitch moves are drawn. 96 frames of 12 numbers describe
// it: the logarithms of the power in 12 bands. The frames go through a Linear, a Conformer block
// and a mean over all positions; a Linear makes the logits of the five classes. A rising and a
// falling tone have the same mean spectrum, and two tones in turn visit the pitches of a vibrato:
// the order of the frames tells them apart.
//
// Training sees each sequence once. The exit status is 1 unless at least 97 % of 500 unseen
// sequences are told apart. An argument is another seed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/clip.h"
#include "rapt/nn/conformer_layer.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/init.h"
#include "rapt/nn/linear.h"
#include "rapt/nn/schedule.h"
#include "rapt/product.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kFrames = 96, kHop = 16, kWindow = 48, kSamples = (kFrames - 1) * kHop + kWindow;
constexpr int64_t kBands = 12, kClasses = 5;
constexpr int64_t kFeatures = 32, kHeads = 4, kHidden = 64, kKernel = 15;
constexpr int64_t kBatch = 16, kSteps = 240, kUnseen = 500;
constexpr int64_t kReported = 40;  // steps to a line
constexpr double kWanted = 0.97;

// How many octaves the pitch of a class is above the middle one at a time in [0, 1] of the tone. A
// glide covers `far` octaves; the others turn `turns` times, far / 3 octaves up and down.
double octaves(int64_t tone, double time, double far, double turns) {
  const double wave = std::sin(2 * kPi * turns * time);
  switch (tone) {
    case 0:  // steady
      return 0;
    case 1:  // rising
      return far * (time - 0.5);
    case 2:  // falling
      return far * (0.5 - time);
    case 3:  // two tones in turn
      return far / 3 * (wave < 0 ? -1 : 1);
    default:  // vibrato
      return far / 3 * wave;
  }
}

// Adds a tone to `samples`, which hold noise of deviation 1; `drawn`: 8 numbers between -1 and 1.
void add_tone(int64_t tone, const float* drawn, float* samples) {
  const auto between = [&](int i, double least, double most) {
    return least + (most - least) * (static_cast<double>(drawn[i]) + 1) / 2;
  };
  const double middle = 0.12 * std::exp2(between(0, -0.4, 0.4));  // cycles per sample
  const double far = between(1, 0.6, 1.2), turns = between(2, 2, 4);
  const double loudness = between(3, 0.3, 1), noise = between(4, 0.05, 0.25) * loudness;
  const double onset = between(5, 0, 0.25) * kSamples, end = between(6, 0.75, 1) * kSamples;
  double phase = between(7, -kPi, kPi);
  for (int64_t i = 0; i < kSamples; ++i) {
    const double time = (static_cast<double>(i) - onset) / (end - onset);
    double sample = noise * static_cast<double>(samples[i]);
    if (time >= 0 && time < 1) {
      phase += 2 * kPi * middle * std::exp2(octaves(tone, time, far, turns));
      sample += loudness * std::sin(phase);
    }
    samples[i] = static_cast<float>(sample);
  }
}

// A filter's cosine and sine for each band, under a Hann window: [2 bands, window].
Tensor make_filters() {
  Tensor filters(DType::f32, {2 * kBands, kWindow});
  for (int64_t row = 0; row < 2 * kBands; ++row) {
    const double place = static_cast<double>(row / 2) / (kBands - 1);
    const double frequency = 0.06 * std::pow(4, place);  // two octaves
    for (int64_t i = 0; i < kWindow; ++i) {
      const double at = static_cast<double>(i) + 0.5;
      const double hann = 0.5 - 0.5 * std::cos(2 * kPi * at / kWindow);
      const double angle = 2 * kPi * frequency * at;
      filters.values<float>()[static_cast<size_t>(row * kWindow + i)] =
          static_cast<float>(hann * (row % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
  return filters;
}

// Sequences and their classes.
struct Batch {
  Tensor frames, classes;  // [count, frames, bands], [count] i64
};

Batch make_batch(int64_t count, uint64_t seed, const Tensor& filters) {
  Batch batch{Tensor(DType::f32, {count, kFrames, kBands}), Tensor(DType::i64, {count})};
  Tensor samples(DType::f32, {count, kSamples}), drawn(DType::f32, {count, 8});
  Tensor parts(DType::f32, {kFrames, 2 * kBands});
  nn::draw(samples, nn::Init::normal(), seed, "noise");
  nn::draw(drawn, nn::Init::uniform(1), seed, "tones");
  for (int64_t n = 0; n < count; ++n) {
    const int64_t tone = n % kClasses;
    batch.classes.values<int64_t>()[static_cast<size_t>(n)] = tone;
    float* const wave = samples.values<float>().data() + n * kSamples;
    add_tone(tone, drawn.values<float>().data() + n * 8, wave);
    TensorView windows(wave, {kFrames, kWindow});  // which overlap
    windows.strides[0] = kHop;
    rapt::multiply(windows, filters, parts);
    float* const frames = batch.frames.values<float>().data() + n * kFrames * kBands;
    const float* const part = parts.values<float>().data();
    for (int64_t i = 0; i < kFrames * kBands; ++i) {
      const float power = part[2 * i] * part[2 * i] + part[2 * i + 1] * part[2 * i + 1];
      frames[i] = 0.5F * std::log(power + 0.01F);
    }
  }
  return batch;
}

struct Model {
  nn::Linear input;
  nn::ConformerLayer block;
  nn::Linear head;

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("input", model.input);
    f("block", model.block);
    f("head", model.head);
  }
};

// Writes the mean of the rows of each sequence: pooled [count, features].
void mean_over_positions(const TensorView& rows, const TensorView& pooled, const nn::Run& run) {
  if (run.counts()) return;
  const float* row = static_cast<const float*>(rows.data);
  float* mean = static_cast<float*>(pooled.data);
  for (int64_t n = 0; n < rows.shape[0]; ++n, mean += kFeatures) {
    std::fill_n(mean, kFeatures, 0.0F);
    for (int64_t t = 0; t < kFrames; ++t, row += kFeatures)
      for (int64_t c = 0; c < kFeatures; ++c) mean[c] += row[c] / kFrames;
  }
}

void mean_gradient(const TensorView& d_pooled, const TensorView& d_rows, const nn::Run& run) {
  if (run.counts()) return;
  const float* d_mean = static_cast<const float*>(d_pooled.data);
  float* d_row = static_cast<float*>(d_rows.data);
  for (int64_t n = 0; n < d_rows.shape[0]; ++n, d_mean += kFeatures)
    for (int64_t t = 0; t < kFrames; ++t, d_row += kFeatures)
      for (int64_t c = 0; c < kFeatures; ++c) d_row[c] = d_mean[c] / kFrames;
}

// How many rows of logits are largest at their class.
int64_t count_right(const TensorView& logits, const Tensor& classes) {
  const float* row = static_cast<const float*>(logits.data);
  int64_t right = 0;
  for (const int64_t expected : classes.values<int64_t>()) {
    right += std::max_element(row, row + kClasses) - row == expected;
    row += kClasses;
  }
  return right;
}

struct Outcome {
  double loss = 0;
  int64_t right = 0;
};

// A forward call, and a backward call in training: gradients are added to the parameters.
Outcome pass(Model& model, const Batch& batch, nn::Arena& states, const nn::Run& run) {
  const nn::Arena::Frame frame(states);
  const int64_t count = batch.frames.dim(0);
  const TensorView rows = states.take(DType::f32, {count, kFrames, kFeatures});
  const TensorView mixed = states.take(DType::f32, {count, kFrames, kFeatures});
  const TensorView pooled = states.take(DType::f32, {count, kFeatures});
  const TensorView logits = states.take(DType::f32, {count, kClasses});
  const TensorView lse = states.take(DType::f64, {count});
  const auto state = make_state(model.block, rows.dims(), states);

  forward(model.input, batch.frames, rows, run);
  forward(model.block, rows, mixed, state, run);
  mean_over_positions(mixed, pooled, run);
  forward(model.head, pooled, logits, run);
  Outcome outcome{.loss = cross_entropy(logits, batch.classes, lse, run)};
  if (!run.counts()) outcome.right = count_right(logits, batch.classes);
  if (!run.training) return outcome;

  cross_entropy_gradient(logits, batch.classes, lse, logits, run);
  const TensorView d_pooled = states.take(DType::f32, {count, kFeatures});
  backward(model.head, pooled, logits, d_pooled, run);
  mean_gradient(d_pooled, mixed, run);  // from here on `mixed` holds gradients
  backward(model.block, rows, mixed, state, mixed, run);
  backward(model.input, batch.frames, mixed, TensorView(), run);
  return outcome;
}

// The memory of a pass, and the pass in it.
class Passes {
 public:
  Passes(Model& model, bool training, const Batch& like) : model_(model), training_(training) {
    nn::Arena states, scratch;
    pass(model, like, states, {.scratch = scratch, .context = {}, .training = training});
    state_memory_.resize(states.bytes());
    scratch_memory_.resize(scratch.bytes());
  }
  Outcome operator()(const Batch& batch) {
    nn::Arena states(state_memory_), scratch(scratch_memory_);
    return pass(model_, batch, states, {.scratch = scratch, .context = {}, .training = training_});
  }

 private:
  Model& model_;
  bool training_;
  std::vector<std::byte> state_memory_, scratch_memory_;
};

void train(Model& model, uint64_t seed, const Tensor& filters) {
  auto [weights, others] = nn::split_by_rank(nn::named_parameters(model));
  nn::AdamW optimizer(std::move(weights), {.weight_decay = 0.01});
  optimizer.add_group(std::move(others), {.weight_decay = 0});
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  const nn::WarmupCosine schedule{.peak = 5e-3, .warmup_steps = 20, .total_steps = kSteps};
  Passes passes(model, true, make_batch(kBatch, seed, filters));
  double loss = 0;
  int64_t right = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = make_batch(kBatch, seed + 1000 + static_cast<uint64_t>(step), filters);
    nn::clear_gradients(parameters);
    const Outcome outcome = passes(batch);
    nn::clip_gradients(parameters, 1);
    optimizer.step(learning_rate(schedule, step));
    loss += outcome.loss, right += outcome.right;
    if ((step + 1) % kReported != 0) continue;
    std::printf("  step %3d, loss %.3f, %5.1f %% right\n", static_cast<int>(step + 1),
                loss / kReported, 100.0 * static_cast<double>(right) / (kReported * kBatch));
    std::fflush(stdout);
    loss = 0, right = 0;
  }
}

// How many of kUnseen sequences that training has not seen are right.
int64_t test(Model& model, uint64_t seed, const Tensor& filters) {
  constexpr int64_t kTogether = 50;
  Passes passes(model, false, make_batch(kTogether, seed, filters));
  int64_t right = 0;
  for (int64_t i = 0; i < kUnseen / kTogether; ++i)
    right += passes(make_batch(kTogether, seed + static_cast<uint64_t>(i), filters)).right;
  return right;
}

}  // namespace

int main(int count, char** words) {
  try {
    const uint64_t seed = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
    const Tensor filters = make_filters();
    Model model{
        nn::make_linear(kBands, kFeatures),
        nn::make_conformer_layer(
            kFeatures, kHeads,
            {.hidden_features = kHidden, .kernel = kKernel, .attention = {.rotary = "rotary"}}),
        nn::make_linear(kFeatures, kClasses)};
    nn::initialize(model, seed);
    std::printf("%d parameters, seed %d\n", static_cast<int>(nn::count_parameters(model)),
                static_cast<int>(seed));
    train(model, seed * 1'000'000, filters);
    const int64_t right = test(model, seed * 1'000'000 + 500'000, filters);
    std::printf("%.1f %% of %d unseen sequences are right\n",
                100.0 * static_cast<double>(right) / kUnseen, static_cast<int>(kUnseen));
    return static_cast<double>(right) >= kWanted * kUnseen ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

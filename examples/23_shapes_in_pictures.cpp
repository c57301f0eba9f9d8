// A small vision Transformer tells circles, squares, triangles and crosses apart (Dosovitskiy et
// al. 2021, arXiv:2010.11929, with the mean of the patches instead of a class token).
//
//   pictures [50, 1, 16, 16]: a shape of random size, place and brightness, and noise
//   patches  [50, 16, 16] of 4 x 4 pixels,  x = layer2(layer1(embed(patches) + places))
//   logits   [50, 4] = head(mean of x over the patches)
//
// Batches are new and judged before they train. Exit status 1: below 93 % of the last 500 pictures.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/encoder_layer.h"
#include "rapt/nn/init.h"
#include "rapt/nn/patches.h"
#include "rapt/nn/schedule.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::TensorView;

constexpr int64_t kSide = 16, kPatches = 16, kPixels = 16, kFeatures = 32, kHeads = 4;
constexpr int64_t kShapes = 4, kBatch = 50, kSteps = 1000, kJudged = 10;
const rapt::Context context;

struct Classifier {
  nn::Linear embed = nn::make_linear(kPixels, kFeatures);
  nn::Embedding places = nn::make_embedding(kPatches, kFeatures);
  nn::EncoderLayer layer1 = nn::make_encoder_layer(kFeatures, kHeads, {.norm_first = true});
  nn::EncoderLayer layer2 = nn::make_encoder_layer(kFeatures, kHeads, {.norm_first = true});
  nn::Linear mean = nn::make_linear(kPatches * kFeatures, kFeatures, false);  // over patches
  nn::Linear head = nn::make_linear(kFeatures, kShapes);

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("embed", model.embed);
    f("places", model.places);
    f("layer1", model.layer1);
    f("layer2", model.layer2);
    f("head", model.head);
  }
};

struct Batch {
  rapt::Tensor pictures{DType::f32, {kBatch, 1, kSide, kSide}};
  rapt::Tensor places{DType::i64, {kBatch, kPatches}}, shapes{DType::i64, {kBatch}};
};

// Is the point (x, y) in the shape of radius 1 around the origin?
bool covers(int64_t shape, float x, float y) {
  const float across = std::abs(x), up = std::abs(y);
  if (shape == 0) return x * x + y * y < 1;                        // a circle
  if (shape == 1) return std::max(across, up) < 0.9f;              // a square
  if (shape == 2) return up < 1 && across < (1 + y) / 2;           // a triangle
  return std::min(across, up) < 0.3f && std::max(across, up) < 1;  // a cross
}

Batch draw(std::mt19937_64& random) {
  const auto between = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(random() >> 40) * 0x1p-24f;
  };
  Batch batch;
  for (int64_t place = 0; int64_t & p : batch.places.values<int64_t>()) p = place++ % kPatches;
  float* pixel = batch.pictures.values<float>().data();
  for (int64_t& shape : batch.shapes.values<int64_t>()) {
    shape = static_cast<int64_t>(random() % kShapes);
    const float radius = between(3, 6), brightness = between(0.5f, 1);
    const float left = between(radius, kSide - radius), top = between(radius, kSide - radius);
    for (int i = 0; i < kSide * kSide; ++i) {
      const float x = (0.5f + static_cast<float>(i % kSide) - left) / radius;
      const float y = (0.5f + static_cast<float>(i / kSide) - top) / radius;
      *pixel++ = between(-0.2f, 0.2f) + (covers(shape, x, y) ? brightness : 0);
    }
  }
  return batch;
}

// Returns the loss, adds to the gradients of the model and counts the pictures that it has right.
double run_model(Classifier& model, const Batch& batch, nn::Arena& arena, int64_t& right) {
  const nn::Arena::Frame frame(arena);
  const nn::Run run{.scratch = arena, .context = context, .training = true};
  const auto take = [&] { return arena.take(DType::f32, {kBatch, kPatches, kFeatures}); };
  const auto rows_of = [](const TensorView& x) {
    return TensorView(static_cast<float*>(x.data), {kBatch, kPatches * kFeatures});
  };
  const TensorView patches = arena.take(DType::f32, {kBatch, kPatches, kPixels});
  const TensorView mean = arena.take(DType::f32, {kBatch, kFeatures});
  const TensorView logits = arena.take(DType::f32, {kBatch, kShapes});
  const TensorView x0 = take(), x1 = take(), x2 = take();
  const auto state1 = make_state(model.layer1, x0.dims(), arena);
  const auto state2 = make_state(model.layer2, x1.dims(), arena);
  to_patches(batch.pictures, {.height = 4, .width = 4}, patches, run);
  forward(model.embed, patches, x0, run);
  forward(model.places, batch.places, x0, run, true);  // adds
  forward(model.layer1, x0, x1, state1, run);
  forward(model.layer2, x1, x2, state2, run);
  forward(model.mean, rows_of(x2), mean, run);
  forward(model.head, mean, logits, run);
  const TensorView lse = arena.take(DType::f64, {kBatch}), d_x = take(), d_y = take();
  const TensorView d_mean = arena.take(DType::f32, mean.dims());
  const double loss = cross_entropy(logits, batch.shapes, lse, run);
  const float* row = static_cast<const float*>(logits.data);
  for (int64_t i = 0; i < kBatch && !run.counts(); ++i, row += kShapes)
    right += std::max_element(row, row + kShapes) - row == batch.shapes.values<int64_t>()[i];
  cross_entropy_gradient(logits, batch.shapes, lse, logits, run);
  backward(model.head, mean, logits, d_mean, run);
  backward(model.mean, rows_of(x2), d_mean, rows_of(d_y), run);
  backward(model.layer2, x1, d_y, state2, d_x, run);
  backward(model.layer1, x0, d_x, state1, d_y, run);
  backward(model.places, batch.places, d_y, run);
  backward(model.embed, patches, d_y, TensorView(), run);
  return loss;
}

}  // namespace

int main() {
  Classifier model;
  model.places.weight.init = nn::Init::normal(0.02);  // patches count more than places at first
  nn::initialize(model, 1);
  for (size_t i = 0; i < kPatches * kFeatures; ++i)
    model.mean.weight.value.values<float>()[i % kFeatures * kPatches * kFeatures + i] =
        1.0f / kPatches;
  nn::freeze(model.mean);
  std::mt19937_64 random(1);
  int64_t right = 0;
  nn::Arena counter;  // without memory: counts
  run_model(model, draw(random), counter, right);
  std::vector<std::byte> bytes(counter.bytes());
  nn::Arena arena(bytes);
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  nn::Adam adam(nn::named_parameters(model));
  for (int64_t step = 0; step < kSteps; ++step) {
    if (step == kSteps - kJudged) right = 0;
    nn::clear_gradients(parameters);
    const double loss = run_model(model, draw(random), arena, right);
    adam.step(nn::learning_rate({.peak = 0.005, .warmup_steps = 20, .total_steps = kSteps}, step));
    if (step % 100 == 99) std::printf("step %3d: loss %.4f\n", int(step + 1), loss);
  }
  std::printf("%d of %d unseen pictures right\n", int(right), int(kJudged * kBatch));
  return right * 100 >= kJudged * kBatch * 93 ? 0 : 1;
}

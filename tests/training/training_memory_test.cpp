// The memory of a run, told before it: that of a model, its optimiser and its counted arenas.
#include "rapt/training/training_memory.h"

#include "rapt/nn/adam.h"
#include "small_run.h"

namespace {

using namespace small_run;

double bytes_of_view(const TensorView& view) {
  return static_cast<double>(view.count() * size_of(view.dtype));
}

// The bytes that plan_memory() of a Trainer counts.
double counted_activations(nn::LanguageModel& model, const TrainingSettings& settings) {
  const Context context{.threads = 1};
  const int64_t shape[] = {settings.batch, settings.block};
  const TensorView tokens(nullptr, DType::i64, shape, true);
  nn::Arena states, scratch;
  const auto state = make_state(model, settings.batch, settings.block, states);
  const nn::Run run{.scratch = scratch, .context = context, .training = true};
  forward(model, tokens, state, run);
  target_loss(model, tokens, state, run);
  backward(model, tokens, tokens, state, run);
  return static_cast<double>(states.bytes() + scratch.bytes());
}

TEST(TrainingMemory, IsThatOfATrainer) {
  for (const nn::LanguageModelLayout layout :
       {nn::LanguageModelLayout::gpt2, nn::LanguageModelLayout::llama,
        nn::LanguageModelLayout::qwen3})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      nn::LanguageModelSpec spec{.layout = layout,
                                 .vocabulary = 100,
                                 .context = 80,
                                 .layers = 3,
                                 .heads = 4,
                                 .features = 64,
                                 .tied_head = layout == nn::LanguageModelLayout::qwen3};
      if (layout != nn::LanguageModelLayout::gpt2) spec.kv_heads = 2, spec.attention_bias = true;
      if (layout == nn::LanguageModelLayout::llama) spec.network_bias = true;
      const TrainingSettings settings{.batch = 24, .block = 64, .dtype = dtype};
      nn::LanguageModel model = make_language_model(spec, dtype);
      nn::AdamW optimizer(nn::named_parameters(model));
      double weights = 0, gradients = 0, moments = 0;
      nn::visit(model, [&](const std::string&, const nn::Parameter& p) {
        weights += bytes_of_view(p.value.view());
        gradients += bytes_of_view(p.gradient.view());
      });
      for (const nn::NamedView& one : optimizer.state())
        if (one.view.rank > 0) moments += bytes_of_view(one.view);  // not the counts of steps
      const TrainingMemory told = training_memory(spec, settings);
      EXPECT_EQ(count_parameters(spec), static_cast<double>(nn::count_parameters(model)));
      EXPECT_EQ(told.weights, weights);
      EXPECT_EQ(told.gradients, gradients);
      EXPECT_EQ(told.moments, moments);
      // The workspaces of single calls, which differ by instruction set, are not told.
      const double counted = counted_activations(model, settings);
      EXPECT_LE(told.activations, counted);
      EXPECT_GE(told.activations, 0.75 * counted);
    }
}

TEST(TrainingMemory, IsToldOfACheckpoint) {
  const TemporaryFolder folder;
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(nn::LanguageModelLayout::gpt2, data);
  Trainer trainer(spec, small_settings(), data, {.threads = 1});
  trainer.step();
  save_checkpoint(folder.path(), trainer.checkpoint(), true);
  EXPECT_EQ(training_memory(folder.path() + kLatest).total(),
            training_memory(spec, small_settings()).total());
}

// Sizes whose products fit neither memory nor 64 bits.
TEST(TrainingMemory, TakesNone) {
  const nn::LanguageModelSpec spec{.vocabulary = int64_t{1} << 40,
                                   .context = int64_t{1} << 40,
                                   .layers = int64_t{1} << 40,
                                   .heads = 1,
                                   .features = int64_t{1} << 40};
  EXPECT_GT(training_memory(spec, {.batch = 1 << 20, .block = 1 << 20}).total(), 1e30);
}

}  // namespace

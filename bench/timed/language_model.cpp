// Speed of language models: a step of training, and a token of generation.
//
//   bench_language_model [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// "small": nanoGPT's recipe for a CPU (4 layers, 4 heads, 128 features, 65 tokens, 12 windows of
// 64). "124M": GPT-2 (12 layers, 12 heads, 768 features, 50,257 tokens, 4 windows of 64).
//
// A step is forward, backward, clipping and AdamW. Its operations are counted as nanoGPT counts
// them, 6 N + 12 layers features block for each token, N the numbers in matrices without those of
// positions: a causal mask saves none, and what is done row by row is not counted.
//
// A token is read beside kCached others, and the speed compared with plain reading of all weights.
// How it is measured: timed_case.h.
#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "rapt/nn/adam.h"
#include "rapt/nn/clip.h"
#include "rapt/nn/decoding.h"
#include "timed/layer_memory.h"
#include "timed/timed_case.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::Tensor;

struct Size {
  const char* name;
  int64_t layers, heads, features, vocabulary, context, batch, block;
};
constexpr Size kSmall = {"small", 4, 4, 128, 65, 64, 12, 64};
constexpr Size kGpt2 = {"124M", 12, 12, 768, 50257, 1024, 4, 64};
constexpr int64_t kCached = 63;

nn::LanguageModel model_of(const Size& size, DType dtype, nn::Frozen frozen) {
  nn::LanguageModel model = make_language_model({.layout = nn::LanguageModelLayout::gpt2,
                                                 .vocabulary = size.vocabulary,
                                                 .context = size.context,
                                                 .layers = size.layers,
                                                 .heads = size.heads,
                                                 .features = size.features},
                                                dtype, frozen);
  nn::initialize_language_model(model, 1);
  return model;
}

Tensor random_tokens(const Size& size, std::initializer_list<int64_t> sizes) {
  static std::mt19937 generator(1);
  std::uniform_int_distribution<int64_t> token(0, size.vocabulary - 1);
  Tensor tokens(DType::i64, sizes);
  for (int64_t& t : tokens.values<int64_t>()) t = token(generator);
  return tokens;
}

// The numbers in matrices, of which a layer has 12 features^2; the head is the table of tokens.
double matrix_numbers(const Size& size) {
  const auto features = static_cast<double>(size.features);
  return features *
         (12 * static_cast<double>(size.layers) * features + static_cast<double>(size.vocabulary));
}

double flops_of_step(const Size& size) {
  const double attention = 12.0 * static_cast<double>(size.layers * size.features * size.block);
  return static_cast<double>(size.batch * size.block) * (6 * matrix_numbers(size) + attention);
}

class Training {
 public:
  Training(const Size& size, DType dtype, int threads)
      : model_(model_of(size, dtype, nn::Frozen::no)),
        memory_(threads),
        tokens_(random_tokens(size, {size.batch, size.block})),
        targets_(random_tokens(size, {size.batch, size.block})) {
    context_.threads = threads;
    nn::SplitParameters split = nn::split_by_rank(nn::named_parameters(model_));
    optimizer_.add_group(std::move(split.weights), {.weight_decay = 0.1});
    optimizer_.add_group(std::move(split.others), {.weight_decay = 0});
    parameters_ = nn::parameters_of(model_);
    memory_.reserve(
        [&](nn::Arena& arena) { state_ = make_state(model_, size.batch, size.block, arena); },
        [&](const nn::Run& run) { call_layers(run); });
  }
  void step() {
    nn::clear_gradients(parameters_);
    call_layers(memory_.run());
    nn::clip_gradients(parameters_, 1, context_);
    optimizer_.step(1e-3, context_);
  }

 private:
  void call_layers(const nn::Run& run) {
    forward(model_, tokens_, state_, run);
    target_loss(model_, targets_, state_, run);
    backward(model_, tokens_, targets_, state_, run);
  }
  rapt::Context context_;
  nn::LanguageModel model_;
  bench::LayerMemory memory_;
  nn::LanguageModel::State state_;
  Tensor tokens_, targets_;
  nn::AdamW optimizer_;
  std::vector<nn::Parameter*> parameters_;
};

// Reads the same token again and again, beside the same others.
class Generation {
 public:
  Generation(const Size& size, DType dtype)
      : model_(model_of(size, dtype, nn::Frozen::yes)),
        memory_(1),
        prompt_(random_tokens(size, {1, kCached})),
        token_(random_tokens(size, {1, 1})),
        logits_(dtype, {1, size.vocabulary}) {
    memory_.reserve(
        [&](nn::Arena& arena) { cache_ = make_decoding_cache(model_, 1, kCached + 1, arena); },
        [&](const nn::Run& run) {
          decode(model_, prompt_, cache_, logits_, run);
          decode(model_, token_, cache_, logits_, run);
        });
    decode(model_, prompt_, cache_, logits_, memory_.run());
  }
  void read_token() {
    decode(model_, token_, cache_, logits_, memory_.run());
    cache_.truncate(0, kCached);
  }

 private:
  nn::LanguageModel model_;
  bench::LayerMemory memory_;
  Tensor prompt_, token_, logits_;
  nn::DecodingCache cache_;
};

bench::CaseMaker step_case(const Size& size, DType dtype, int threads) {
  const double flops = flops_of_step(size);
  const std::string name = std::string("step ") + size.name + " " + rapt::name_of(dtype) + ", " +
                           std::to_string(threads) + " threads";
  return {name, flops, [=] {
            const auto training = std::make_shared<Training>(size, dtype, threads);
            return bench::TimedCase{
                .name = "", .flops = flops, .threads = threads, .call = [training] {
                  training->step();
                }};
          }};
}

bench::CaseMaker token_case(const Size& size, DType dtype) {
  const double bytes = matrix_numbers(size) * static_cast<double>(rapt::size_of(dtype));
  return {std::string("token ") + size.name + " " + rapt::name_of(dtype), bytes, [=] {
            const auto generation = std::make_shared<Generation>(size, dtype);
            return bench::TimedCase{.name = "", .bytes_read = bytes, .call = [generation] {
                                      generation->read_token();
                                    }};
          }};
}

bool measure_all(const bench::Arguments& arguments) {
  std::vector<bench::CaseMaker> cases;
  for (const Size& size : {kSmall, kGpt2})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int threads : {1, 2}) cases.push_back(step_case(size, dtype, threads));
  for (const Size& size : {kSmall, kGpt2})
    for (const DType dtype : {DType::f32, DType::bf16}) cases.push_back(token_case(size, dtype));
  return bench::measure_cases(arguments, "language_model", cases);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv,
      "usage: bench_language_model [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}

// A language model beside transformers: language_model_driver IN GIVEN.safetensors OUT
// FOUND.safetensors.
//
// Loads the model of the folder IN in the dtype of the tensor "rate", computes the logits and the
// loss of "tokens" and "targets" [batch, length], the logits once more by decoding with a cache
// (two tokens, then one at a time), takes a step of gradient descent with "rate" [1], computes the
// loss again, and saves the model in the folder OUT.
#include <algorithm>
#include <cstdio>

#include "rapt/checkpoint/model_files.h"
#include "rapt/io/safetensors.h"
#include "rapt/nn/decoding.h"

namespace {

using namespace rapt;

// Calls f(states, run) once to count and once to compute.
template <class Function>
void run_twice(const Function& f) {
  const Context context;
  nn::Arena states, scratch;
  f(states, nn::Run{.scratch = scratch, .context = context});
  std::vector<std::byte> state_memory(states.bytes()), scratch_memory(scratch.bytes());
  nn::Arena kept(state_memory), temporary(scratch_memory);
  f(kept, nn::Run{.scratch = temporary, .context = context});
}

Tensor given_tensor(const TensorFile& file, const char* name) {
  const StoredTensor* const stored = file.find(name);
  if (!stored) throw Error(ErrorCode::argument, std::string("the file has no tensor ") + name);
  return Tensor::copy_of(load(*stored).view());
}

// The loss; its gradients if `with_gradients`; the logits if they are given.
double loss_of(nn::LanguageModel& model, const Tensor& tokens, const Tensor& targets,
               bool with_gradients, const TensorView& logits = {}) {
  double loss = 0;
  run_twice([&](nn::Arena& states, const nn::Run& run) {
    const auto state = make_state(model, tokens.dim(0), tokens.dim(1), states);
    forward(model, tokens, state, run);
    if (logits.defined()) compute_logits(model, state.normed, logits, run);
    loss = target_loss(model, targets, state, run);
    if (with_gradients) backward(model, tokens, targets, state, run);
  });
  return loss;
}

void decode_all(const nn::LanguageModel& model, const Tensor& tokens, const TensorView& logits) {
  const int64_t batch = tokens.dim(0), length = tokens.dim(1), vocabulary = model.spec.vocabulary;
  run_twice([&](nn::Arena& states, const nn::Run& run) {
    nn::DecodingCache cache = make_decoding_cache(model, batch, length, states);
    for (int64_t at = 0; at < length;) {
      const int64_t n = at == 0 ? std::min<int64_t>(2, length) : 1;
      const Tensor some = Tensor::copy_of(tokens.view().slice(1, at, at + n));
      Tensor found(model.dtype(), {batch, n, vocabulary});
      decode(model, some, cache, found, run);
      const auto row = static_cast<size_t>(n * vocabulary * size_of(model.dtype()));
      for (int64_t b = 0; b < batch; ++b)
        std::copy_n(static_cast<const std::byte*>(found.data()) + static_cast<size_t>(b) * row, row,
                    static_cast<std::byte*>(logits.data) +
                        (b * length + at) * vocabulary * size_of(model.dtype()));
      at += n;
    }
  });
}

template <class E>
void descend(nn::LanguageModel& model, double rate) {
  nn::visit(model, [&](const std::string&, nn::Parameter& p) {
    const auto values = p.value.values<E>(), gradients = p.gradient.values<E>();
    for (size_t i = 0; i < values.size(); ++i) values[i] -= static_cast<E>(rate) * gradients[i];
  });
}

void run_model(const char* in, const char* given, const char* out, const char* found) {
  const TensorFile file = open_tensor_file(given);
  const Tensor tokens = given_tensor(file, "tokens"), targets = given_tensor(file, "targets");
  const Tensor rate = given_tensor(file, "rate");
  const DType dtype = rate.dtype();
  nn::LanguageModel model = checkpoint::load_model(in, dtype);
  const int64_t shape[] = {tokens.dim(0), tokens.dim(1), model.spec.vocabulary};
  Tensor logits(dtype, shape), decoded(dtype, shape), losses(DType::f64, {2});
  losses.values<double>()[0] = loss_of(model, tokens, targets, true, logits);
  decode_all(model, tokens, decoded);
  if (dtype == DType::f64)
    descend<double>(model, rate.values<double>()[0]);
  else
    descend<float>(model, static_cast<double>(rate.values<float>()[0]));
  losses.values<double>()[1] = loss_of(model, tokens, targets, false);
  checkpoint::save_model(out, model);
  OutputFile results(found, Overwrite::no);
  const NamedTensor tensors[] = {
      {"logits", logits.view()}, {"decoded", decoded.view()}, {"losses", losses.view()}};
  write_safetensors([&](const void* data, int64_t bytes) { results.write(data, bytes); }, tensors);
  results.commit();
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    std::fputs("usage: language_model_driver IN GIVEN.safetensors OUT FOUND.safetensors\n", stderr);
    return 2;
  }
  try {
    run_model(words[1], words[2], words[3], words[4]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "language_model_driver: %s\n", error.what());
    return 1;
  }
}

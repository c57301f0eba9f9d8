#include "rapt/generation/generator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace rapt::generation {
namespace {

[[noreturn]] void fail_prompt(const std::string& message) {
  throw Error(ErrorCode::argument, "prompt: " + message, "prompt");
}

void check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw Error(ErrorCode::argument,
                std::string(name) + " is " + std::to_string(value) + "; expected " +
                    std::to_string(least) + " to " + std::to_string(most),
                name);
}

int64_t drawn_vocabulary(const nn::DecodingSizes& sizes, int64_t asked) {
  check_range("vocabulary", asked, 0, sizes.vocabulary);
  return asked == 0 ? sizes.vocabulary : asked;
}

nn::DecodingSizes sizes_with_cache(nn::DecodingSizes sizes, const GeneratorOptions& options) {
  if (options.cache_dtype) sizes.cache_dtype = *options.cache_dtype;
  return sizes;
}

// A model of layers, which must outlive this.
class LanguageModelDecoder final : public nn::DecodingModel {
 public:
  explicit LanguageModelDecoder(const nn::LanguageModel& model) : model_(model) {}

  nn::DecodingSizes sizes() const override {
    return nn::decoding_sizes(model_.spec, model_.dtype());
  }
  void decode(const TensorView& new_tokens, nn::DecodingCache& cache, const TensorView& logits,
              const nn::Run& run, const nn::DecodingWeights& weights) const override {
    nn::decode(model_, new_tokens, cache, logits, run, weights);
  }

 private:
  const nn::LanguageModel& model_;
};

// Memory that becomes pages of the process as it is written, not before.
Tensor memory_for(const nn::Arena& counter) {
  if (counter.bytes() > static_cast<size_t>(PTRDIFF_MAX)) throw std::bad_alloc();
  return Tensor(DType::u8, {static_cast<int64_t>(counter.bytes())});
}

nn::Arena arena_of(Tensor& memory) {
  return nn::Arena({static_cast<std::byte*>(memory.data()), static_cast<size_t>(memory.count())});
}

// Tokens that are read anew when the context is full.
int64_t kept_when_sliding(const nn::DecodingSizes& sizes) {
  return std::max<int64_t>(1, sizes.context / 2);
}

// Tokens of a sequence that the cache holds at most: the last one is never read.
int64_t capacity_of(const nn::DecodingSizes& sizes, const GeneratorOptions& options,
                    int64_t prompt) {
  return options.length - 1 > sizes.context - prompt ? sizes.context : prompt + options.length - 1;
}

// New tokens of a sequence behind the prompt that are read at once.
int64_t most_new_tokens(const nn::DecodingSizes& sizes, const GeneratorOptions& options,
                        int64_t capacity) {
  return options.when_full == WhenFull::slide ? std::min(kept_when_sliding(sizes), capacity) : 1;
}

int64_t of_one_call(int64_t tokens) { return std::min(tokens, kMostTokensAtOnce); }

// Copies element 0 of the first dimension of a dense tensor to all others.
void repeat_first(const TensorView& tensor) {
  const int64_t count = tensor.shape[0];
  const auto bytes = static_cast<size_t>(tensor.count() / count * size_of(tensor.dtype));
  auto* const data = static_cast<std::byte*>(tensor.data);
  for (size_t i = 1; i < static_cast<size_t>(count); ++i)
    std::memcpy(data + i * bytes, data, bytes);
}

}  // namespace

double generation_bytes(const nn::LanguageModelSpec& spec, DType dtype,
                        const GeneratorOptions& options, int64_t prompt) {
  return generation_bytes(nn::decoding_sizes(spec, dtype), options, prompt);
}

double generation_bytes(const nn::DecodingSizes& sizes, const GeneratorOptions& options,
                        int64_t prompt) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double sequences = number(options.sequences);
  const double kv = number(sizes.kv_heads) * number(sizes.head_dim);
  const int64_t capacity = capacity_of(sizes, options, prompt);
  double cached = sequences * number(capacity);
  if (options.sequences > 1) cached += number(prompt);
  const double rows =
      std::max(number(of_one_call(prompt)),
               sequences * number(of_one_call(most_new_tokens(sizes, options, capacity))));
  const DType cache_dtype = options.cache_dtype.value_or(sizes.cache_dtype.value_or(sizes.dtype));
  // Queries, keys and values that are rounded for the cache.
  const double rounded =
      cache_dtype == sizes.dtype ? 0 : number(sizes.heads) * number(sizes.head_dim) + 2 * kv;
  return number(size_of(cache_dtype)) * (2 * number(sizes.layers) * kv * cached + rows * rounded) +
         number(size_of(sizes.dtype)) *
             (sequences * number(sizes.vocabulary) + rows * sizes.row_elements);
}

Generator::Generator(const nn::DecodingModel& model, const GeneratorOptions& options,
                     std::span<const int64_t> prompt, const Context& context)
    : Generator(nullptr, &model, options, prompt, context) {}

Generator::Generator(const nn::LanguageModel& model, const GeneratorOptions& options,
                     std::span<const int64_t> prompt, const Context& context)
    : Generator(std::make_unique<LanguageModelDecoder>(model), nullptr, options, prompt, context) {}

Generator::Generator(std::unique_ptr<const nn::DecodingModel> own, const nn::DecodingModel* model,
                     const GeneratorOptions& options, std::span<const int64_t> prompt,
                     const Context& context)
    : own_(std::move(own)),
      model_(own_ ? *own_ : *model),
      sizes_(sizes_with_cache(model_.sizes(), options)),
      options_(options),
      context_(context),
      sampler_(options.sampling, drawn_vocabulary(sizes_, options.vocabulary)),
      prompt_(std::ssize(prompt)) {
  check(prompt);
  constexpr int64_t kMostReserved = int64_t{1} << 16;  // longer texts grow as they are written
  tokens_.resize(static_cast<size_t>(options.sequences));
  for (std::vector<int64_t>& tokens : tokens_) {
    tokens.reserve(prompt.size() + static_cast<size_t>(std::min(options.length, kMostReserved)));
    tokens.assign(prompt.begin(), prompt.end());
  }
  written_.resize(tokens_.size(), 0);
  newest_.resize(tokens_.size(), kNoToken);
  finish_.resize(tokens_.size(), Finish::none);
  take_memory();
}

void Generator::check(std::span<const int64_t> prompt) const {
  check_range("sequences", options_.sequences, 1, kMostSequences);
  check_range("length", options_.length, 1, kMostLength);
  if (options_.attention) {
    check_range("layer", options_.attention->layer, 0, sizes_.layers - 1);
    check_range("head", options_.attention->head, 0, sizes_.heads - 1);
  }
  if (prompt.empty()) fail_prompt("expected at least one token, got none");
  if (prompt_ > sizes_.context)
    fail_prompt(std::to_string(prompt_) + " tokens; the model has " +
                std::to_string(sizes_.context) + " positions");
  for (const int64_t token : prompt)
    if (token < 0 || token >= sizes_.vocabulary)
      fail_prompt("token " + std::to_string(token) + "; expected 0 to " +
                  std::to_string(sizes_.vocabulary - 1));
}

void Generator::decode_input(nn::DecodingCache& cache, int64_t n, nn::Arena& scratch) {
  nn::DecodingWeights weights = weights_;
  if (weights.weights.defined()) {
    // The cache of the prompt has one sequence and fewer keys.
    weights.weights = weights.weights.slice(0, 0, cache.batch).slice(1, 0, cache.capacity);
  }
  model_.decode(TensorView(input_.data(), {cache.batch, n}), cache,
                logits_.slice(0, 0, cache.batch), {.scratch = scratch, .context = context_},
                weights);
}

void Generator::count_calls(nn::DecodingCache& cache, int64_t n, nn::Arena& scratch) {
  decode_input(cache, of_one_call(n), scratch);
  // Few tokens may need more than many.
  if (const int64_t last = n % kMostTokensAtOnce; last > 0) decode_input(cache, last, scratch);
}

void Generator::read_tokens(nn::DecodingCache& cache, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t n = of_one_call(end - begin);
    auto to = input_.begin();
    for (int64_t s = 0; s < cache.batch; ++s)
      to = std::copy_n(tokens_[static_cast<size_t>(s)].begin() + begin, n, to);
    nn::Arena scratch = arena_of(scratch_memory_);
    decode_input(cache, n, scratch);
    begin += n;
  }
}

nn::DecodingCache Generator::make_cache(int64_t sequences, int64_t capacity,
                                        nn::Arena& arena) const {
  nn::DecodingCache cache = make_decoding_cache(sizes_, sequences, capacity, arena);
  cache.invariant = options_.invariant;
  return cache;
}

void Generator::take_states(int64_t capacity, nn::Arena& arena) {
  cache_ = make_cache(options_.sequences, capacity, arena);
  logits_ = arena.take(sizes_.dtype, {options_.sequences, sizes_.vocabulary});
  if (!options_.attention) return;
  const DType dtype = sizes_.dtype == DType::f64 ? DType::f64 : DType::f32;
  weights_ = {.layer = options_.attention->layer,
              .head = options_.attention->head,
              .weights = arena.take(dtype, {options_.sequences, capacity})};
}

// Counts the cache, and the scratch of each kind of call, and takes both.
void Generator::take_memory() {
  const int64_t capacity = capacity_of(sizes_, options_, prompt_);
  const int64_t most_new = most_new_tokens(sizes_, options_, capacity);
  nn::Arena states, scratch, prompt;
  take_states(capacity, states);
  if (options_.sequences > 1) {
    prompt_cache_ = make_cache(1, prompt_, prompt);
    prompt_memory_ = memory_for(prompt);
  }
  state_memory_ = memory_for(states);
  count_calls(options_.sequences > 1 ? prompt_cache_ : cache_, prompt_, scratch);
  count_calls(cache_, 1, scratch);
  count_calls(cache_, most_new, scratch);
  scratch_memory_ = memory_for(scratch);
  input_.resize(static_cast<size_t>(
      std::max(of_one_call(prompt_), options_.sequences * of_one_call(most_new))));
  nn::Arena memory = arena_of(state_memory_);
  take_states(capacity, memory);
  if (options_.sequences == 1) return;
  nn::Arena of_prompt = arena_of(prompt_memory_);
  prompt_cache_ = make_cache(1, prompt_, of_prompt);
}

// One sequence reads the prompt, and all others get copies of its keys and values.
void Generator::read_prompt() {
  if (options_.sequences == 1) return read_tokens(cache_, 0, prompt_);
  read_tokens(prompt_cache_, 0, prompt_);
  append_prompt(cache_, prompt_cache_);
  prompt_cache_ = {};
  prompt_memory_ = {};
  repeat_first(logits_);
  if (weights_.weights.defined()) repeat_first(weights_.weights);
}

void Generator::read_new_tokens() {
  if (cached() == cache_.capacity) {
    forgotten_ = total() - kept_when_sliding(sizes_);
    cache_.clear();
  }
  read_tokens(cache_, forgotten_ + cached(), total());
}

Finish Generator::finish_after(int64_t written) const {
  if (written == options_.length) return Finish::length;
  const bool full = prompt_ + written > sizes_.context;
  return full && options_.when_full == WhenFull::stop ? Finish::context : Finish::none;
}

void Generator::draw(int64_t sequence, int64_t position) {
  const auto s = static_cast<size_t>(sequence);
  newest_[s] = kNoToken;
  if (finish_[s] != Finish::none) return tokens_[s].push_back(tokens_[s].back());
  const int64_t shape[] = {drawn_vocabulary(sizes_, options_.vocabulary)};
  const TensorView logits(logits_.slice(0, sequence, sequence + 1).data, logits_.dtype, shape,
                          true);
  const int64_t token = sampler_.draw(logits, sequence, position);
  tokens_[s].push_back(token);
  if (std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end()) {
    finish_[s] = Finish::stop_token;
    return;
  }
  newest_[s] = token;
  finish_[s] = finish_after(++written_[s]);
}

bool Generator::next() {
  if (std::ranges::find(finish_, Finish::none) == finish_.end()) return false;
  if (context_.cancel && context_.cancel->cancelled())
    throw Error(ErrorCode::cancelled, "cancelled by the caller");
  if (cached() == 0)
    read_prompt();
  else
    read_new_tokens();
  const int64_t position = total();
  for (int64_t s = 0; s < options_.sequences; ++s) draw(s, position);
  return true;
}

std::span<const int64_t> Generator::text(int64_t sequence) const {
  const auto s = static_cast<size_t>(sequence);
  return {tokens_[s].data() + prompt_, static_cast<size_t>(written_[s])};
}

TensorView Generator::attention(int64_t sequence) const {
  const int64_t shape[] = {cached()};
  return {weights_.weights.slice(0, sequence, sequence + 1).data, weights_.weights.dtype, shape,
          true};
}

}  // namespace rapt::generation

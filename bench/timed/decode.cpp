// Speed of decoding: one query per head against all keys of a cache, beside plain reading of its
// keys and values.
//
//   bench_decode [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// A name is "heads/key heads d head_dim dtype, keys, variant". The keys and values of "memory" take
// four times the size of the last-level cache, those of "cache" a quarter. Appended rows are
// compared with memcpy. How it is measured: timed/timed_case.h.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "rapt/rapt.h"
#include "timed/timed_case.h"

namespace {

using rapt::DType;

struct Shape {
  int64_t heads, kv_heads, head_dim;
  DType dtype;
  double caches = 0;  // bytes of keys and values, in last-level caches; 0: `keys` keys
  int64_t keys = 0;
  int64_t queries = 1;
  int threads = 1;
};

enum class Variant { plain, softcap, alibi, window, sinks, lengths, weights, pages256, pages16 };
constexpr const char* kVariantNames[] = {"plain",   "softcap",      "alibi",
                                         "window",  "sinks",        "lengths",
                                         "weights", "pages of 256", "pages of 16"};

int64_t last_level_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : int64_t{32} << 20;
}

int64_t keys_of(const Shape& s) {
  if (s.keys > 0) return s.keys;
  const int64_t row = 2 * s.kv_heads * s.head_dim * rapt::size_of(s.dtype);
  const auto bytes = static_cast<int64_t>(s.caches * static_cast<double>(last_level_bytes()));
  return std::max<int64_t>(bytes / row / 256 * 256, 256);
}

// Repeats 2^16 elements, as E or in 16 bits.
template <class T, class Number>
void repeat_numbers(const std::vector<float>& numbers, rapt::Tensor& t, const Number& number) {
  const std::span<T> values = t.values<T>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = number(numbers[i % numbers.size()]);
}

rapt::Tensor random_rows(std::mt19937& generator, DType dtype, int64_t heads, int64_t rows,
                         int64_t dims, int64_t batch = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> numbers(1 << 16);
  for (float& x : numbers) x = normal(generator);
  rapt::Tensor t(dtype, {batch, heads, rows, dims});
  if (dtype == DType::f32) repeat_numbers<float>(numbers, t, [](float x) { return x; });
  if (dtype == DType::bf16)
    repeat_numbers<rapt::BFloat16>(numbers, t, [](float x) { return rapt::BFloat16::from(x); });
  if (dtype == DType::f16)
    repeat_numbers<rapt::Float16>(numbers, t, [](float x) { return rapt::Float16::from(x); });
  return t;
}

int64_t page_keys_of(Variant variant) {
  return variant == Variant::pages256 ? 256 : variant == Variant::pages16 ? 16 : 0;
}

class Problem {
 public:
  Problem(const Shape& s, Variant variant, int64_t keys)
      : context_{.threads = s.threads},
        query_(random_rows(generator_, s.dtype, s.heads, s.queries, s.head_dim)),
        key_(rows_of_keys(s, variant, keys)),
        value_(rows_of_keys(s, variant, keys)),
        output_(s.dtype, {1, s.heads, s.queries, s.head_dim}),
        sinks_(DType::f32, {s.heads}),
        lengths_(DType::i64, {1}),
        window_(keys, 0, rapt::Anchor::bottom_right),
        length_mask_(lengths_),
        sink_(sinks_) {
    lengths_.values<int64_t>()[0] = keys;
    switch (variant) {
      case Variant::plain:
        break;
      case Variant::softcap:
        options_.scores = {softcap_};
        break;
      case Variant::alibi:
        options_.scores = {alibi_};
        break;
      case Variant::window:
        options_.masks = {&window_};
        break;
      case Variant::sinks:
        options_.normalizer = sink_;
        break;
      case Variant::lengths:
        options_.masks = {&length_mask_};
        break;
      case Variant::weights:
        options_.weights.emplace();
        weights_ = rapt::Tensor(DType::f32, {1, s.heads, s.queries, keys});
        break;
      case Variant::pages256:
      case Variant::pages16:
        table_ = rapt::Tensor(DType::i32, {1, keys / page_keys_of(variant)});
        std::iota(table_.values<int32_t>().begin(), table_.values<int32_t>().end(), 0);
        std::shuffle(table_.values<int32_t>().begin(), table_.values<int32_t>().end(), generator_);
        options_.cache = {.lengths = lengths_, .block_table = table_};
        break;
    }
    workspace_.resize(rapt::workspace_bytes(query_, key_, value_, options_, context_));
  }
  void call() {
    rapt::AttentionOutputs outputs;
    outputs.state.output = output_;
    if (options_.weights) outputs.weights = weights_;
    rapt::scaled_dot_product_attention(query_, key_, value_, options_, outputs, workspace_,
                                       context_);
  }

 private:
  // [1, kv_heads, keys, head_dim], or in pages [pages, kv_heads, page_keys, head_dim].
  rapt::Tensor rows_of_keys(const Shape& s, Variant variant, int64_t keys) {
    const int64_t page_keys = page_keys_of(variant);
    if (page_keys == 0) return random_rows(generator_, s.dtype, s.kv_heads, keys, s.head_dim);
    return random_rows(generator_, s.dtype, s.kv_heads, page_keys, s.head_dim, keys / page_keys);
  }

  std::mt19937 generator_{1};
  rapt::Context context_;
  rapt::Tensor query_, key_, value_, output_, sinks_, lengths_, weights_, table_;
  rapt::Softcap softcap_{50};
  rapt::Alibi alibi_;
  rapt::Window window_;
  rapt::Lengths length_mask_;
  rapt::SoftmaxWithSink sink_;
  rapt::AttentionOptions options_;
  std::vector<std::byte> workspace_;
};

bench::CaseMaker case_of(const Shape& s, Variant variant) {
  const int64_t keys = keys_of(s);
  const double numbers = 2.0 * static_cast<double>(s.kv_heads * keys * s.head_dim);
  std::string name = std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " d" +
                     std::to_string(s.head_dim) + " " + rapt::name_of(s.dtype) + ", " +
                     std::to_string(keys) + " keys" +
                     (s.caches > 1   ? " in memory"
                      : s.caches > 0 ? " in cache"
                                     : "") +
                     ", " + kVariantNames[static_cast<int>(variant)];
  if (s.queries > 1) name += ", " + std::to_string(s.queries) + " queries";
  if (s.threads > 1) name += ", " + std::to_string(s.threads) + " threads";
  return {name, numbers, [=] {
            const auto problem = std::make_shared<Problem>(s, variant, keys);
            return bench::TimedCase{
                .name = "",
                .bytes_read = numbers * static_cast<double>(rapt::size_of(s.dtype)),
                .threads = s.threads,
                .call = [problem] { problem->call(); }};
          }};
}

// Rows of a prompt, appended to a cache that is then empty again.
bench::CaseMaker append_case(DType dtype, int64_t page_keys) {
  constexpr int64_t kHeads = 8, kRows = 1024, kHeadDim = 128;
  constexpr double kNumbers = 2.0 * kHeads * kRows * kHeadDim;
  struct Appended {
    rapt::Tensor key, value;
    rapt::KeyValueCache cache;
  };
  const std::string name = std::string("append 8 d128 ") + rapt::name_of(dtype) + ", 1024 keys" +
                           (page_keys > 0 ? ", pages of " + std::to_string(page_keys) : "");
  const auto size = static_cast<double>(rapt::size_of(dtype));
  return {name, kNumbers, [=] {
            std::mt19937 generator{1};
            const auto appended = std::make_shared<Appended>(Appended{
                .key = random_rows(generator, dtype, kHeads, kRows, kHeadDim),
                .value = random_rows(generator, dtype, kHeads, kRows, kHeadDim),
                .cache = rapt::KeyValueCache({.num_kv_heads = kHeads,
                                              .capacity = kRows,
                                              .head_dim = kHeadDim,
                                              .dtype = dtype,
                                              .page_keys = page_keys,
                                              .pages = page_keys > 0 ? kRows / page_keys : 0})});
            return bench::TimedCase{
                .name = "",
                .bytes_copied = kNumbers * size,
                .bytes_of_piece =
                    static_cast<double>(page_keys > 0 ? page_keys : kRows) * kHeadDim * size,
                .call = [appended] {
                  appended->cache.clear();
                  appended->cache.append(appended->key, appended->value);
                }};
          }};
}

bool measure_all(const bench::Arguments& arguments) {
  std::vector<bench::CaseMaker> cases;
  const auto add = [&](const Shape& s, Variant variant = Variant::plain) {
    cases.push_back(case_of(s, variant));
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) add({32, 8, 128, dtype, 4});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t head_dim : {64, 128}) add({8, 2, head_dim, dtype, 0.25});
  add({8, 8, 128, DType::f32, 4});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Shape shape{32, 8, 128, dtype, 4};
    for (const Variant variant :
         {Variant::softcap, Variant::alibi, Variant::window, Variant::sinks, Variant::lengths,
          Variant::weights, Variant::pages256, Variant::pages16})
      add(shape, variant);
    Shape eight = shape;
    eight.queries = 8;
    add(eight);
  }
  add({.heads = 4, .kv_heads = 1, .head_dim = 128, .dtype = DType::f32, .caches = 4, .threads = 2});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Variant variant : {Variant::plain, Variant::pages256, Variant::pages16})
      add({.heads = 8,
           .kv_heads = 2,
           .head_dim = 128,
           .dtype = dtype,
           .keys = 16384,
           .queries = 512},
          variant);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t page_keys : {0, 256, 16}) cases.push_back(append_case(dtype, page_keys));
  return bench::measure_cases(arguments, "decode", cases);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_decode [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}

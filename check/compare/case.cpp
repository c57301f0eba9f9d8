#include "check/compare/case.h"

#include <algorithm>
#include <limits>

#include "check/compare/set_elements.h"
#include "check/problem/parse_normalizer.h"
#include "check/problem/variant_text.h"
#include "check/reference/method.h"
#include "check/tolerance/two_parts.h"

namespace check {
namespace {

Tensor random_values(Random& random, const Descriptor& d, const Side& side, InputTensor which) {
  const Dims dims = dims_of(which, d);
  Tensor values = random_normal(random, d.dtype, dims, d.magnitude);
  if (side.repeated < 0 || dims[static_cast<size_t>(side.repeated)] == 0) return values;
  const Dims first(static_cast<size_t>(dims[static_cast<size_t>(side.repeated)]), 0);
  return taken(values, side.repeated, first);
}

// Keys [..., k_len, head_dim] that differ from the first one as `how` says.
Tensor alike(const TensorView& keys, Keys how) {
  const int64_t k_len = keys.shape[keys.rank - 2];
  const Tensor equal = taken(keys, -2, Dims(static_cast<size_t>(k_len), 0));
  return mapped(equal, [&](double x, auto index) {
    const auto j = static_cast<double>(index[index.size() - 2]);
    return how == Keys::equal ? x : x * j / static_cast<double>(k_len);
  });
}

// The starts of `sequences` sequences in `length` positions, followed by the end; some sequences
// are empty.
Tensor random_starts(Random& random, int64_t sequences, int64_t length) {
  Dims starts = {0, length};
  for (int64_t s = 1; s < sequences; ++s) starts.push_back(random.between(0, length));
  std::ranges::sort(starts);
  Tensor tensor(DType::i64, {sequences + 1});
  std::ranges::copy(starts, tensor.values<int64_t>().begin());
  return tensor;
}

// The sequence of `position`: the last one that starts at or before it.
size_t sequence_at(std::span<const int64_t> starts, int64_t position) {
  return static_cast<size_t>(std::ranges::upper_bound(starts, position) - starts.begin()) - 1;
}

// The starts of sequences of the lengths in `cache`, followed by the end.
Tensor starts_of(const DrawnCache& cache, int64_t sequences) {
  Tensor tensor(DType::i64, {sequences + 1});
  const auto starts = tensor.values<int64_t>();
  starts.front() = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto at = static_cast<size_t>(s);
    starts[at + 1] = starts[at] + cache.length(s);
  }
  return tensor;
}

TensorView with_stride_0(TensorView view, const Side& side) {
  if (view.defined() && side.repeated >= 0) view.strides[side.repeated] = 0;
  return view;
}

TensorView& table_of(rapt::RelativePositions& relative, size_t part) {
  TensorView* const tables[] = {&relative.key_rows, &relative.query_rows, &relative.value_rows,
                                &relative.content_bias, &relative.position_bias};
  return *tables[part];
}

}  // namespace

Case::Case(Descriptor drawn)
    : descriptor(std::move(drawn)), normalizer(made(descriptor.normalizer, normalizer_numbers)) {
  Random random(descriptor.seed);
  draw_inputs(random);
  for (MaskSpec& mask : descriptor.masks) {
    mask.draw(random, descriptor.q_len, descriptor.k_len, mask_values);
    masks.push_back(mask.make());
    mask_pointers.push_back(masks.back().get());
  }
  if (descriptor.packed > 0) draw_packing(random);
  options.masks = mask_pointers;
  options.scale = descriptor.scale;
  options.output_dtype = descriptor.output_dtype;
  options.precision = descriptor.precision;
  options.invariant = descriptor.invariant;
  options.dropout = {descriptor.dropout, descriptor.dropout_seed};
  options.normalizer = normalizer;
  if (!descriptor.method.empty()) method = rapt::make_method(descriptor.method);
  options.method = method.get();
  for (ScoreSpec& score : descriptor.scores) {
    score.draw(random, descriptor.dtype, score_numbers);
    scores.push_back(made(score));
  }
  options.scores = refs_of(scores);
  if (descriptor.bias_first) options.bias_order = rapt::BiasOrder::before_scores;
  draw_relative(random);
  change_rows();
}

void Case::draw_inputs(Random& random) {
  const Descriptor& d = descriptor;
  query = random_values(random, d, d.query, InputTensor::query);
  key = random_values(random, d, d.key, InputTensor::key);
  value = random_values(random, d, d.value, InputTensor::value);
  // Keys of stride 0 are equal.
  const bool repeated = d.key.repeated == static_cast<int>(d.key.leading.size());
  if (d.k_len > 0 && d.keys != Keys::drawn && !repeated) key = alike(key, d.keys);
  set_elements(d, InputTensor::query, query);
  set_elements(d, InputTensor::key, key);
  set_elements(d, InputTensor::value, value);
  strided_query = Strided(query, d.query.layout);
  if (d.cache) return draw_cache(random);
  strided_key = Strided(key, d.key.layout);
  strided_value = Strided(value, d.value.layout);
  if (d.has_bias) draw_bias(random);
}

void Case::draw_bias(Random& random) {
  const Descriptor& d = descriptor;
  bias = random_normal(random, d.bias_dtype.value_or(d.dtype), d.bias_dims);
  for_each_index(d.bias_dims, [&](auto index) {
    if (random.chance(d.excluded_by_bias))
      set(bias, index, -std::numeric_limits<double>::infinity());
  });
  if (d.bias.repeated >= 0 && bias.dim(d.bias.repeated) > 0) {
    const Dims first(static_cast<size_t>(bias.dim(d.bias.repeated)), 0);
    bias = taken(bias, d.bias.repeated, first);
  }
  set_elements(d, InputTensor::bias, bias);
  strided_bias = Strided(bias, d.bias.layout);
  options.bias = bias;
}

// Reads keys and values back, because sequences may share pages.
void Case::draw_cache(Random& random) {
  const Descriptor& d = descriptor;
  cache.emplace(random, *d.cache, d.packed > 0 ? d.packed : d.leading.front(), d.k_len);
  const auto store = [&](Tensor& rows, const Side& side, Strided& strided) {
    const Tensor stored = cache->stored(rows);
    strided = Strided(stored, side.layout);
    rows = cache->found(stored);
    if (d.packed > 0) rows = cache->joined(rows);
  };
  store(key, d.key, strided_key);
  store(value, d.value, strided_value);
}

void Case::draw_packing(Random& random) {
  query_starts = random_starts(random, descriptor.packed, descriptor.q_len);
  key_starts = cache ? starts_of(*cache, descriptor.packed)
                     : random_starts(random, descriptor.packed, descriptor.k_len);
  options.packed = {query_starts, key_starts};
}

void Case::draw_relative(Random& random) {
  const Descriptor& d = descriptor;
  RelativeSpec& spec = descriptor.relative;
  spec.draw(random, d.dtype, d.head_dim, d.value_dim, d.magnitude, relative_tables);
  for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
    const TensorView& table = spec.tables[part].numbers;
    table_of(options.relative, part) = table;
    strided_relative[part] =
        Strided(table, part == RelativeSpec::values ? d.value.layout : d.key.layout);
  }
  if (spec.center) options.relative.center = *spec.center;
  options.relative.exact = spec.exact;
  options.relative.max_distance = spec.max_distance;
  options.relative.anchor = spec.anchor;
}

void Case::change_rows() {
  const RowSpec& rows = descriptor.rows;
  if (rows.cosine) options.cosine = rapt::Cosine{*rows.cosine};
  if (!rows.rotary) return;
  const RotarySpec& spec = *rows.rotary;
  rotary.theta = spec.theta;
  rotary.dims = spec.dims;
  if (spec.interleaved) rotary.pairs = rapt::RotaryPairs::interleaved;
  if (spec.magnitude != 1) {  // YaRN with a factor of 1 only multiplies rows by a number
    rotary.scaling = rapt::RotaryScaling::yarn;
    rotary.attention_factor = spec.magnitude;
  }
  options.rotary.embedding = &rotary;
  options.rotary.rotate_key = spec.turns_key;
  options.rotary.query.start = spec.query.start, options.rotary.query.step = spec.query.step;
  options.rotary.key.start = spec.key.start, options.rotary.key.step = spec.key.step;
}

Case::Inputs Case::laid_out() const {
  const Descriptor& d = descriptor;
  return {with_stride_0(strided_query, d.query), with_stride_0(strided_key, d.key),
          with_stride_0(strided_value, d.value), with_stride_0(strided_bias, d.bias)};
}

rapt::AttentionOptions Case::wanted_options() const {
  rapt::AttentionOptions wanted = options;
  if (descriptor.has_bias) wanted.bias = laid_out().bias;
  for (size_t part = 0; part < RelativeSpec::kParts; ++part)
    table_of(wanted.relative, part) = strided_relative[part];
  const Captures& captures = descriptor.captures;
  if (const auto& w = captures.weights)
    wanted.weights = rapt::WeightsRequest{w->begin, w->end, w->heads, w->rows};
  if (const auto& m = captures.map)
    wanted.map =
        rapt::MapRequest{m->rows, m->columns, static_cast<rapt::Pool>(m->pooling), m->heads};
  wanted.top_k = captures.top_k;
  wanted.entropy = captures.entropy;
  wanted.received = captures.received;
  if (cache) {
    wanted.cache = {cache->lengths, cache->block_table, cache->starts};
    wanted.packed.key_starts = {};
  }
  return wanted;
}

Case::Sequence Case::sequence_of(std::span<const int64_t> leading, int64_t i) const {
  const Descriptor& d = descriptor;
  if (d.packed == 0) return {0, d.q_len, 0, cache ? cache->length(leading.front()) : d.k_len};
  const auto queries = query_starts.values<int64_t>(), keys = key_starts.values<int64_t>();
  const size_t s = sequence_at(queries, i);
  return {queries[s], queries[s + 1] - queries[s], keys[s], keys[s + 1] - keys[s]};
}

// A sequence attends to its own keys only, and its positions count from its own start.
std::optional<PairPlace> Case::place_of(std::span<const int64_t> leading, int64_t i,
                                        int64_t j) const {
  const Sequence s = sequence_of(leading, i);
  if (j < s.first_key || j >= s.first_key + s.k_len) return {};
  return PairPlace{leading, descriptor.leading, i - s.first_query, j - s.first_key, s.q_len,
                   s.k_len};
}

bool Case::allowed(std::span<const int64_t> leading, int64_t i, int64_t j) const {
  const std::optional<PairPlace> place = place_of(leading, i, j);
  return place && std::ranges::all_of(descriptor.masks,
                                      [&](const MaskSpec& mask) { return mask.allowed(*place); });
}

DType Case::multiplied_dtype() const {
  return method && rapt::size_of(descriptor.dtype) == 2 ? DType::f32 : descriptor.dtype;
}

std::string Case::kernel() const {
  Inputs in = laid_out();
  rapt::AttentionOptions wanted = wanted_options();
  // A method may call the exact engine, with one kernel class, on rows in f32.
  if (wanted.method != nullptr) {
    wanted.method = nullptr;
    wanted.invariant = true;
    for (TensorView* const rows : {&in.query, &in.key, &in.value})
      rows->data = nullptr, rows->dtype = multiplied_dtype();
  }
  return rapt::plan(in.query, in.key, in.value, wanted).kernel;
}

int64_t Case::first_key(int64_t query_position) const {
  if (descriptor.packed == 0) return 0;
  return sequence_of({}, query_position).first_key;
}

// The places of the rows of packed sequences, and of sequences in a cache.
void Case::place_rows(Problem& p) const {
  using Leading = std::span<const int64_t>;
  p.placed = [this](Leading leading, int64_t i, int64_t j) { return *place_of(leading, i, j); };
  p.k_len_of = [this](Leading leading, int64_t i) { return sequence_of(leading, i).k_len; };
  // The queries of a cache are the last positions of their sequence; its keys are not rotated.
  p.query_place = [this](Leading leading, int64_t i) {
    const Sequence s = sequence_of(leading, i);
    return i - s.first_query + (cache ? s.k_len - s.q_len : 0);
  };
  if (!cache)
    p.key_place = [this](Leading, int64_t j) {
      const auto starts = key_starts.values<int64_t>();
      return j - starts[sequence_at(starts, j)];
    };
  p.drops_by_place = cache.has_value();
}

Problem Case::for_reference() const {
  Problem p;
  p.query = query;
  p.key = key;
  p.value = value;
  if (bias.defined()) p.bias = bias;
  p.scale = descriptor.scale;
  p.normalizer = descriptor.normalizer;
  p.scores = descriptor.scores;
  p.bias_first = descriptor.bias_first;
  p.relative = descriptor.relative;
  p.rows = descriptor.rows;
  p.dropout = descriptor.dropout;
  p.dropout_seed = descriptor.dropout_seed;
  p.output_dtype = descriptor.output_dtype.value_or(descriptor.dtype);
  // f16 is computed in f32, and so is bf16 without its dot products (attention.h, relative.h).
  p.rounds_weights = descriptor.dtype == DType::bf16 &&
                     descriptor.precision != rapt::Precision::fma && !descriptor.relative.any();
  if (descriptor.precision == rapt::Precision::fast || !descriptor.elements.empty()) {
    const std::string products = kernel();
    p.in_parts =
        products.starts_with("tile registers") && products != "tile registers, one product";
    // Without tile registers, or on another route, Precision::fast is the same as automatic.
    if (descriptor.precision == rapt::Precision::fast &&
        products == "tile registers, three products")
      p.left_out = left_out_of_two_parts(multiplied_dtype());
  }
  if (descriptor.packed > 0 || cache) place_rows(p);
  if (!masks.empty() || descriptor.packed > 0 || cache)
    p.allowed = [this](std::span<const int64_t> leading, int64_t i, int64_t j) {
      return allowed(leading, i, j);
    };
  if (!method) return p;
  const rapt::Declaration& declaration = method->declaration();
  return restated(declaration.name,
                  arguments_of(declaration, dynamic_cast<const void*>(method.get())), std::move(p));
}

}  // namespace check

// Rotary embedding as a separate function: its results for every dtype, layout, kind of pairs and
// positions; the frequencies of the scalings; products depend on distances alone.
#include "rapt/rotary.h"

#include <gtest/gtest.h>

#include "rows/rotary_reference.h"
#include "support/assertions.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using check::filled;
using check::get;
using check::Random;
using check::random_normal;
using check::set;
using rapt::ErrorCode;
using rapt::Rotary;
using rapt::rotary_embedding;
using rapt::rotary_embedding_backward;
using rapt::rotary_frequencies;
using rapt::RotaryAxes;
using rapt::RotaryPairs;
using rapt::RotaryPositions;
using rapt::RotaryScaling;

// Positions that count from `start`.
auto counted(int64_t start = 0, int64_t step = 1) {
  return [=](std::span<const int64_t> row, int) { return start + step * row.back(); };
}

Tensor of_integers(const Dims& dims,
                   const std::function<int64_t(std::span<const int64_t>)>& value) {
  Tensor tensor(DType::i64, dims);
  check::for_each_index(dims, [&](auto i) { set(tensor, i, static_cast<double>(value(i))); });
  return tensor;
}

TEST(Rotary, turns_pairs_as_complex_numbers_in_every_dtype_and_layout) {
  Random random(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (int layout = 0; layout < check::kLayouts; ++layout)
      for (const bool interleaved : {false, true})
        for (const int64_t dims : {0, 2, 6}) {
          const int64_t head_dim = random.between(3, 20) * 2, n = random.between(1, 150);
          const int64_t start = random.between(-100, 100), step = random.between(-3, 3);
          Rotary rotary;
          rotary.theta = random.pick({10000.0, 500000.0, 100.0});
          rotary.dims = dims;
          rotary.pairs = interleaved ? RotaryPairs::interleaved : RotaryPairs::halves;
          const Tensor values = random_normal(random, dtype, {2, 3, n, head_dim});
          const check::Strided rows(values, static_cast<check::Layout>(layout));
          RotaryPositions positions;
          positions.start = start, positions.step = step;
          const auto pairs = turned_pairs(dims == 0 ? head_dim : dims, interleaved, rotary.theta);
          SCOPED_TRACE(std::string(name_of(dtype)) + " " +
                       check::name_of(static_cast<check::Layout>(layout)));
          EXPECT_TRUE(turned_within(rotary_embedding(rows, rotary, positions),
                                    turned(values, pairs, counted(start, step))));
          EXPECT_TRUE(turned_within(rotary_embedding_backward(rows, rotary, positions),
                                    turned(values, pairs, counted(start, step), 1, true)));
        }
}

// f32 cannot hold an angle of 10^6 radians to better than 0.06.
TEST(Rotary, is_exact_at_huge_positions) {
  Random random(2);
  for (const int64_t start : {1000000LL, 1LL << 31, -1LL << 31, 1LL << 40}) {
    const Tensor rows = random_normal(random, DType::f32, {130, 64});
    RotaryPositions positions;
    positions.start = start;
    EXPECT_TRUE(turned_within(rotary_embedding(rows, Rotary{}, positions),
                              turned(rows, turned_pairs(64, false, 10000), counted(start))))
        << start;
  }
  RotaryPositions positions;
  positions.start = 1000000;
  const Tensor one = filled(DType::f32, {1, 2}, 1);
  const Tensor there = rotary_embedding(one, Rotary{}, positions);
  EXPECT_NEAR(get(there, Dims{0, 0}), std::cos(1e6) - std::sin(1e6), 4e-7);
  EXPECT_NEAR(get(there, Dims{0, 1}), std::cos(1e6) + std::sin(1e6), 4e-7);
}

TEST(Rotary, takes_positions_per_batch_or_for_all) {
  Random random(3);
  const Tensor rows = random_normal(random, DType::f32, {3, 2, 70, 8});
  Tensor per_batch = of_integers({3, 70}, [&](auto) { return random.between(0, 1 << 20); });
  RotaryPositions positions;
  positions.values = per_batch;
  EXPECT_TRUE(turned_within(
      rotary_embedding(rows, Rotary{}, positions),
      turned(rows, turned_pairs(8, false, 10000), [&](std::span<const int64_t> row, int) {
        return static_cast<int64_t>(get(per_batch, Dims{row[0], row[2]}));
      })));
  const Tensor for_all = of_integers({70}, [](auto i) { return 7 - 3 * i[0]; });
  positions.values = for_all;
  const Tensor got = rotary_embedding(rows, Rotary{}, positions);
  RotaryPositions counting;
  counting.start = 7, counting.step = -3;
  EXPECT_TRUE(same_bits(got, rotary_embedding(rows, Rotary{}, counting)));
  const Tensor per_head = of_integers({1, 2, 70}, [](auto i) { return 100 * i[1] + i[2]; });
  positions.values = per_head;
  EXPECT_TRUE(turned_within(
      rotary_embedding(rows, Rotary{}, positions),
      turned(rows, turned_pairs(8, false, 10000),
             [](std::span<const int64_t> row, int) { return 100 * row[1] + row[2]; })));
}

// A row's bits follow from its numbers and its position, not from where it lies.
TEST(Rotary, gives_a_row_the_same_bits_alone) {
  Random random(4);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor rows = random_normal(random, dtype, {200, 16});
    RotaryPositions positions;
    positions.start = 1000;
    const Tensor all = rotary_embedding(rows, Rotary{}, positions);
    for (const int64_t row : {0, 1, 47, 63, 64, 130, 199}) {
      RotaryPositions alone;
      alone.start = 1000 + row;
      const TensorView one = rows.view().slice(0, row, row + 1);
      EXPECT_TRUE(
          same_bits(rotary_embedding(one, Rotary{}, alone), all.view().slice(0, row, row + 1)));
    }
  }
}

TEST(Rotary, works_in_place) {
  Random random(5);
  Tensor rows = random_normal(random, DType::f16, {2, 100, 3, 10});
  const Tensor expected = rotary_embedding(rows.view().transposed(1, 2), Rotary{});
  const TensorView view = rows.view().transposed(1, 2);
  rotary_embedding(view, Rotary{}, {}, view);
  EXPECT_TRUE(same_bits(view, expected));
}

TEST(Rotary, backward_undoes_forward) {
  Random random(6);
  for (const double factor : {1.0, 4.0}) {
    Rotary rotary;
    rotary.scaling = RotaryScaling::yarn, rotary.factor = factor;
    const double magnitude = rapt::rotary_magnitude(rotary);
    const Tensor rows = random_normal(random, DType::f64, {90, 32});
    const Tensor back = rotary_embedding_backward(rotary_embedding(rows, rotary), rotary);
    check::for_each_index(rows.dims(), [&](auto i) {
      // Two rotations of two numbers, of at most 6 each.
      EXPECT_NEAR(get(back, i), magnitude * magnitude * get(rows, i), 0x1p-53 * 200);
    });
  }
}

TEST(Rotary, products_depend_on_distances_alone) {
  Random random(7);
  const Tensor query = random_normal(random, DType::f64, {1, 64});
  const Tensor key = random_normal(random, DType::f64, {1, 64});
  const auto at = [](const Tensor& row, int64_t position) {
    RotaryPositions positions;
    positions.start = position;
    return check::values_of(rotary_embedding(row, Rotary{}, positions));
  };
  const auto product = [&](int64_t m, int64_t n) {
    const auto q = at(query, m), k = at(key, n);
    double sum = 0;
    for (size_t d = 0; d < q.size(); ++d) sum += q[d] * k[d];
    return sum;
  };
  for (const int64_t distance : {0, 1, 17, 1000})
    for (const int64_t shift : {1, 63, 64, 12345})
      // Angles up to 2^14 have errors of 2^-39; 64 products of at most 36.
      EXPECT_NEAR(product(distance + shift, shift), product(distance, 0), 64 * 36 * 0x1p-39);
  EXPECT_GT(std::fabs(product(17, 0) - product(18, 0)), 1e-3);
}

void expect_frequencies(const Rotary& rotary, const std::vector<double>& expected) {
  const Tensor got = rotary_frequencies(rotary, static_cast<int64_t>(expected.size()) * 2);
  for (size_t i = 0; i < expected.size(); ++i)
    // Computed in f32 there: a power, divisions and a blend.
    EXPECT_NEAR(got.values<double>()[i], expected[i], expected[i] * 2e-6) << i;
}

// Numbers of Hugging Face transformers 5.23.0, modeling_rope_utils.py, ROPE_INIT_FUNCTIONS, with
// LlamaConfig(head_dim=2 * pairs, rope_parameters=...).
TEST(Rotary, has_the_frequencies_of_transformers) {
  Rotary yarn;  // rope_theta 10000, factor 4, original_max_position_embeddings 2048
  yarn.scaling = RotaryScaling::yarn, yarn.factor = 4, yarn.original_length = 2048;
  expect_frequencies(
      yarn, {1.0, 0.562341332, 0.316227764, 0.177827939, 0.100000001, 0.0502090417, 0.02484647,
             0.0120668961, 0.00571428565, 0.0026108704, 0.00112938497, 0.000444569858,
             0.000250000012, 0.000140585325, 7.90569466e-05, 4.44569851e-05});
  EXPECT_DOUBLE_EQ(rapt::rotary_magnitude(yarn), 1.138629436111989);
  Rotary gpt_oss;  // rope_theta 150000, factor 32, original 4096, truncate false
  gpt_oss.theta = 150000, gpt_oss.scaling = RotaryScaling::yarn, gpt_oss.factor = 32;
  gpt_oss.original_length = 4096, gpt_oss.truncate = false;
  expect_frequencies(
      gpt_oss, {1.0, 0.47478205, 0.225418001, 0.107024416, 0.0508132726, 0.0193350017,
                0.00679495931, 0.00209379266, 0.000456483918, 3.83088118e-05, 1.8188337e-05,
                8.63549576e-06, 4.09997847e-06, 1.94659629e-06, 9.24208962e-07, 4.38797855e-07});
  EXPECT_DOUBLE_EQ(rapt::rotary_magnitude(gpt_oss), 1.3465735902799727);
  Rotary llama;  // rope_theta 500000, factor 8, low 1, high 4, original 8192
  llama.theta = 500000, llama.scaling = RotaryScaling::llama3, llama.factor = 8;
  expect_frequencies(
      llama, {1.0, 0.440366626, 0.193922758, 0.0853971019, 0.0376060307, 0.0165604409,
              0.00729266508, 0.00321144611, 0.000524846022, 7.78465546e-05, 3.42810235e-05,
              1.50962178e-05, 6.64786967e-06, 2.92749974e-06, 1.28917316e-06, 5.6770881e-07});
  EXPECT_DOUBLE_EQ(rapt::rotary_magnitude(llama), 1);
  Rotary linear;
  linear.scaling = RotaryScaling::linear, linear.factor = 4;
  expect_frequencies(linear, {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994,
                              0.000790569466, 0.000250000012, 7.90569466e-05});
}

// The longest wave of NTK-aware scaling is the one that linear scaling has, the shortest stays.
TEST(Rotary, ntk_stretches_the_base) {
  Rotary ntk, plain;
  ntk.scaling = RotaryScaling::ntk, ntk.factor = 8;
  const Tensor got = rotary_frequencies(ntk, 64), before = rotary_frequencies(plain, 64);
  EXPECT_EQ(got.values<double>()[0], 1);
  EXPECT_NEAR(got.values<double>()[31], before.values<double>()[31] / 8, 1e-15);
  const Tensor one = rotary_frequencies(ntk, 2);
  EXPECT_EQ(one.values<double>()[0], 1);
}

TEST(Rotary, multiplies_by_the_attention_factor_of_yarn) {
  Random random(8);
  Rotary rotary;
  rotary.scaling = RotaryScaling::yarn, rotary.factor = 4, rotary.original_length = 64;
  rotary.attention_factor = 1.25, rotary.dims = 16;
  const Tensor rows = random_normal(random, DType::f32, {100, 24});
  std::vector<TurnedPair> pairs = turned_pairs(16, false, 10000);
  const Tensor frequencies = rotary_frequencies(rotary, 24);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i].frequency = frequencies.values<double>()[i];
  EXPECT_TRUE(turned_within(rotary_embedding(rows, rotary), turned(rows, pairs, counted(), 1.25)));
}

// 3 pictures of 12 x 9 patches: 4 + 6 (+ 2) dimensions rotate by time, row and column.
TEST(Rotary, turns_by_positions_on_several_axes) {
  Random random(9);
  const int64_t n = 3 * 12 * 9;
  const Tensor positions_of = of_integers({n, 3}, [](auto i) {
    const int64_t at[] = {i[0] / 108, i[0] / 9 % 12, i[0] % 9};
    return at[i[1]];
  });
  const auto position = [&](std::span<const int64_t> row, int axis) {
    return static_cast<int64_t>(get(positions_of, Dims{row.back(), axis}));
  };
  RotaryPositions positions;
  positions.values = positions_of;
  const Tensor rows = random_normal(random, DType::f32, {2, n, 14});
  for (const bool interleaved : {false, true}) {
    Rotary rotary;
    rotary.dims = 12, rotary.sections[0] = 4, rotary.sections[1] = 6, rotary.sections[2] = 2;
    rotary.pairs = interleaved ? RotaryPairs::interleaved : RotaryPairs::halves;
    std::vector<TurnedPair> apart;
    int64_t first = 0;
    for (int axis = 0; axis < 3; first += rotary.sections[axis++])
      for (const TurnedPair& pair :
           turned_pairs(rotary.sections[axis], interleaved, 10000, first, axis))
        apart.push_back(pair);
    EXPECT_TRUE(
        turned_within(rotary_embedding(rows, rotary, positions), turned(rows, apart, position)));
    rotary.axes = RotaryAxes::shared;
    std::vector<TurnedPair> shared = turned_pairs(12, interleaved, 10000);
    const int axes[] = {0, 0, 1, 1, 1, 2};  // of the pairs
    for (size_t i = 0; i < shared.size(); ++i) shared[i].axis = axes[i];
    EXPECT_TRUE(
        turned_within(rotary_embedding(rows, rotary, positions), turned(rows, shared, position)));
  }
}

// A tensor of positions may hold any integers: each row is rotated as it would be alone, even where
// the next position would overflow int64.
TEST(Rotary, takes_positions_up_to_the_ends_of_int64) {
  Random random(11);
  constexpr int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
  const std::vector<int64_t> at = {kMost - 10, kMost,  kMost - 1, kLeast,     kLeast + 63,
                                   kLeast + 1, kLeast, kMost,     kMost - 63, 0};
  const auto count = static_cast<int64_t>(at.size());
  const Tensor rows = random_normal(random, DType::f64, {count, 8});
  Tensor all(DType::i64, {count});
  std::ranges::copy(at, all.values<int64_t>().begin());
  RotaryPositions positions;
  positions.values = all;
  const Tensor got = rotary_embedding(rows, {}, positions);
  for (int64_t i = 0; i < count; ++i) {
    positions.values = all.view().slice(0, i, i + 1);
    EXPECT_TRUE(same_bits(got.view().slice(0, i, i + 1),
                          rotary_embedding(rows.view().slice(0, i, i + 1), {}, positions)))
        << i;
  }
}

// As ONNX RotaryEmbedding takes them: [positions, pairs] with position_ids, else [batch, n, pairs].
TEST(Rotary, takes_caches) {
  Random random(10);
  const int64_t pairs = 4, most = 50, n = 20;
  Tensor cos(DType::f32, {most, pairs}), sin(DType::f32, {most, pairs});
  check::for_each_index(cos.dims(), [&](auto i) {
    const double angle = random.normal();
    set(cos, i, std::cos(angle)), set(sin, i, std::sin(angle));
  });
  const Tensor ids = of_integers({2, n}, [&](auto) { return random.between(0, most - 1); });
  // [batch, n, heads * head_dim]
  const Tensor hidden = random_normal(random, DType::f32, {2, n, 3 * 10});
  const TensorView rows = rapt::split_heads(hidden, 3);
  Rotary rotary;
  rotary.dims = 2 * pairs, rotary.cos_cache = cos, rotary.sin_cache = sin;
  RotaryPositions positions;
  positions.values = ids;
  const Tensor got = rotary_embedding(rows, rotary, positions);
  const Tensor back = rotary_embedding_backward(rows, rotary, positions);
  EXPECT_TRUE(check::Dims(got.dims().begin(), got.dims().end()) == (Dims{2, 3, n, 10}));
  Tensor own_cos(DType::f32, {2, n, pairs}), own_sin(DType::f32, {2, n, pairs});
  check::for_each_index(got.dims(), [&](auto i) {
    const int64_t d = i[3], at = static_cast<int64_t>(get(ids, Dims{i[0], i[2]}));
    const auto x = [&](int64_t dim) { return get(rows, Dims{i[0], i[1], i[2], dim}); };
    if (d >= 2 * pairs) {
      EXPECT_EQ(get(got, i), x(d));
      return;
    }
    const double c = get(cos, Dims{at, d % pairs}), s = get(sin, Dims{at, d % pairs});
    const double other = d < pairs ? -s * x(d + pairs) : s * x(d - pairs);
    EXPECT_NEAR(get(got, i), c * x(d) + other, 2 * 0x1p-24 * 12);  // two roundings of up to 12
    EXPECT_NEAR(get(back, i), c * x(d) - other, 2 * 0x1p-24 * 12);
    set(own_cos, Dims{i[0], i[2], d % pairs}, c), set(own_sin, Dims{i[0], i[2], d % pairs}, s);
  });
  rotary.cos_cache = own_cos, rotary.sin_cache = own_sin;
  EXPECT_TRUE(same_bits(rotary_embedding(rows, rotary), got));
}

TEST(Rotary, refuses_what_has_no_meaning) {
  const Tensor rows = filled(DType::f32, {2, 3, 8, 6}, 1);
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& words,
                           const Rotary& rotary, const RotaryPositions& positions = {}) {
    expect_error(code, words, [&] { rotary_embedding(rows, rotary, positions); });
  };
  Rotary rotary;
  rotary.dims = 3;
  refused(ErrorCode::argument, {"dims = 3", "even"}, rotary);
  rotary.dims = 8;
  refused(ErrorCode::argument, {"dims = 8", "head_dim of 6"}, rotary);
  expect_error(ErrorCode::argument, {"dims = 5", "even"}, [] {
    rotary_embedding(filled(DType::f32, {4, 5}, 1), Rotary{});
  });
  rotary = {};
  rotary.theta = 0.5;
  refused(ErrorCode::argument, {"rotary: theta = 0.5"}, rotary);
  rotary = {};
  rotary.factor = std::nan("");
  refused(ErrorCode::argument, {"factor"}, rotary);
  rotary = {};
  rotary.scaling = RotaryScaling::yarn, rotary.theta = 1;
  refused(ErrorCode::argument, {"yarn", "theta above 1"}, rotary);
  rotary = {};
  rotary.scaling = RotaryScaling::llama3, rotary.low_frequency_factor = 4;
  refused(ErrorCode::argument, {"low_frequency_factor 4"}, rotary);
  rotary = {};
  rotary.sections[0] = 4;
  refused(ErrorCode::argument, {"sections [4, 0, 0]", "6 dimensions in all"}, rotary);
  rotary.sections[1] = 1, rotary.sections[2] = 1;
  refused(ErrorCode::argument, {"section of 1", "even"}, rotary);
  rotary.sections[1] = 0, rotary.sections[2] = 2;
  refused(ErrorCode::argument, {"sections [4, 0, 2]"}, rotary);
  rotary.sections[1] = 2, rotary.sections[2] = 0;
  refused(ErrorCode::argument, {"2 axes", "[..., 8, 2]"}, rotary);

  RotaryPositions positions;
  const Tensor wrong_type = filled(DType::f32, {8}, 0);
  positions.values = wrong_type;
  refused(ErrorCode::dtype, {"positions are f32", "i64"}, {}, positions);
  const Tensor wrong_length = filled(DType::i64, {2, 7}, 0);
  positions.values = wrong_length;
  refused(ErrorCode::shape, {"positions [2, 7]", "[..., 8]"}, {}, positions);
  const Tensor wrong_batch = filled(DType::i64, {4, 8}, 0);
  positions.values = wrong_batch;
  refused(ErrorCode::shape, {"positions [4, 8]", "leading dimensions [2, 3]"}, {}, positions);
  const Tensor good = filled(DType::i64, {2, 8}, 5);
  positions.values = good, positions.start = 1;
  refused(ErrorCode::argument, {"beside a start"}, {}, positions);
  positions = {};
  positions.start = INT64_MAX;
  refused(ErrorCode::overflow, {"positions from 9223372036854775807"}, {}, positions);

  const Tensor cache = filled(DType::f32, {5, 3}, 1), narrow = filled(DType::f32, {5, 2}, 1);
  rotary = {};
  rotary.cos_cache = cache;
  refused(ErrorCode::argument, {"one cache without the other"}, rotary);
  rotary.sin_cache = narrow;
  positions = {};
  positions.values = good;
  refused(ErrorCode::argument, {"position 5", "0 to 4"}, rotary, positions);
  const Tensor inside = filled(DType::i64, {8}, 4);
  positions.values = inside;
  refused(ErrorCode::shape, {"sin_cache [5, 2]", "3 pairs"}, rotary, positions);
  rotary.sin_cache = cache;
  EXPECT_NO_THROW(rotary_embedding(rows, rotary, positions));
  refused(ErrorCode::argument, {"position 7"}, rotary);
  rotary.sections[0] = 6;
  refused(ErrorCode::unsupported, {"caches of several axes"}, rotary, positions);

  Tensor output = filled(DType::f32, {3, 8, 6}, 0);
  expect_error(ErrorCode::shape, {"output [3, 8, 6]", "[2, 3, 8, 6]"},
               [&] { rotary_embedding(rows, {}, {}, output); });
  Tensor memory = filled(DType::f32, {9, 6}, 0);
  expect_error(ErrorCode::overlap, {"output overlaps rows"}, [&] {
    rotary_embedding(memory.view().slice(0, 0, 8), {}, {}, memory.view().slice(0, 1, 9));
  });
  expect_error(ErrorCode::dtype, {"rows is i64"}, [&] {
    rotary_embedding(filled(DType::i64, {2, 2}, 0), {});
  });
  expect_error(ErrorCode::shape, {"rank 1"},
               [&] { rotary_embedding(filled(DType::f32, {2}, 0), {}); });
  expect_error(ErrorCode::shape, {"4 heads"}, [&] { rapt::split_heads(rows, 4); });
  EXPECT_NO_THROW(rotary_embedding(filled(DType::f32, {2, 0, 6}, 0), {}));
}

}  // namespace
}  // namespace laws

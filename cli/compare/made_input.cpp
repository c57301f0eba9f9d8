#include "cli/compare/made_input.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "check/tensors/random.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

constexpr std::pair<std::string_view, MadeKind> kMadeKinds[] = {{"normal", MadeKind::normal},
                                                                {"needle", MadeKind::needle},
                                                                {"clustered", MadeKind::clustered},
                                                                {"equal", MadeKind::equal},
                                                                {"huge-key", MadeKind::huge_key}};

constexpr int kCentres = 8;
constexpr double kClusterNoise = 0.6, kClusterLength = 6;
constexpr double kNeedleNoise = 0.06, kNeedleLength = 8;
constexpr double kHuge = 32;

using MadeRow = std::vector<double>;

MadeRow normal_row(check::Random& random, int64_t dims, double deviation) {
  MadeRow row(static_cast<size_t>(dims));
  for (double& x : row) x = deviation * random.normal();
  return row;
}

void set_length(MadeRow& row, double length) {
  double square = 0;
  for (const double x : row) square += x * x;
  // A row of zeros is drawn with probability 0.
  for (double& x : row) x *= length / std::sqrt(square);
}

// The matrices of one head, as rows of f32 or f64.
template <class E>
struct MadeHead {
  E *query, *key, *value;  // key: null where it is the query
  int64_t rows, dims;

  void set(E* matrix, int64_t row, const MadeRow& numbers) const {
    for (int64_t d = 0; d < dims; ++d)
      matrix[row * dims + d] = static_cast<E>(numbers[static_cast<size_t>(d)]);
  }
};

template <class E>
void make_needle(const MadeHead<E>& head, check::Random& random) {
  const std::vector<int64_t> query_of = random.permutation(head.rows);
  for (int64_t j = 0; j < head.rows; ++j) {
    MadeRow row = normal_row(random, head.dims, 1);
    set_length(row, 1);
    MadeRow query = row;
    for (double& x : query) x += kNeedleNoise * random.normal();
    set_length(query, kNeedleLength);
    set_length(row, kNeedleLength);
    head.set(head.key, j, row);
    head.set(head.query, query_of[static_cast<size_t>(j)], query);
  }
}

template <class E>
void make_clustered(const MadeHead<E>& head, check::Random& random) {
  std::vector<MadeRow> centres;
  for (int c = 0; c < kCentres; ++c) centres.push_back(normal_row(random, head.dims, 1));
  for (int64_t i = 0; i < head.rows; ++i) {
    MadeRow row = random.pick(centres);
    for (double& x : row) x += kClusterNoise * random.normal();
    set_length(row, kClusterLength);
    head.set(head.query, i, row);
  }
}

template <class E>
void make_head(const MadeInput& made, const MadeHead<E>& head, check::Random& random) {
  const int64_t middle = head.rows / 2;
  switch (made.kind) {
    case MadeKind::needle:
      make_needle(head, random);
      break;
    case MadeKind::clustered:
      make_clustered(head, random);
      break;
    case MadeKind::equal: {
      const MadeRow row = normal_row(random, head.dims, 1);
      for (int64_t i = 0; i < head.rows; ++i) head.set(head.query, i, row);
      break;
    }
    case MadeKind::normal:
    case MadeKind::huge_key:
      for (int64_t i = 0; i < head.rows; ++i)
        head.set(head.query, i, normal_row(random, head.dims, made.deviation));
      for (int64_t j = 0; j < head.rows; ++j) {
        const bool huge = made.kind == MadeKind::huge_key && j == middle;
        head.set(head.key, j, normal_row(random, head.dims, huge ? kHuge : made.deviation));
      }
      break;
  }
  for (int64_t j = 0; j < head.rows; ++j) head.set(head.value, j, normal_row(random, head.dims, 1));
}

template <class E>
void make_all(const MadeInput& made, const MadeSizes& sizes, Tensor& query, Tensor& key,
              Tensor& value) {
  check::Random random(sizes.seed);
  const int64_t matrix = sizes.q_len * sizes.head_dim;
  for (int64_t h = 0; h < sizes.heads; ++h) {
    const MadeHead<E> head{static_cast<E*>(query.data()) + h * matrix,
                           key.defined() ? static_cast<E*>(key.data()) + h * matrix : nullptr,
                           static_cast<E*>(value.data()) + h * matrix, sizes.q_len, sizes.head_dim};
    make_head(made, head, random);
  }
}

LoadedTensor as_dtype(Tensor made, DType dtype) {
  return owned(made.dtype() == dtype ? std::move(made) : converted(made.view(), dtype));
}

}  // namespace

MadeInput parse_made_input(const std::string& text) {
  const size_t end = text.find_first_of("(:");
  const std::string name = text.substr(0, end);
  MadeInput made;
  std::vector<std::string_view> known;
  bool found = false;
  for (const auto& [word, kind] : kMadeKinds) {
    known.push_back(word);
    if (word != name) continue;
    made.kind = kind;
    found = true;
  }
  if (!found)
    throw usage_error(
        "--input: expected normal(S), needle, clustered, equal or huge-key, got '" + text + "'",
        did_you_mean(name, known));
  if (end == std::string::npos) return made;
  std::string number = text.substr(end + 1);
  if (text[end] == '(') {
    if (number.empty() || number.back() != ')')
      throw usage_error("--input " + text + ": ')' is missing");
    number.pop_back();
  }
  if (made.kind != MadeKind::normal)
    throw usage_error("--input " + text + ": only normal has a number, its standard deviation");
  made.deviation = parse_real("--input " + text, number);
  if (made.deviation < 0)
    throw usage_error("--input " + text + ": expected a standard deviation of 0 or more");
  return made;
}

Inputs made_inputs(const MadeInput& made, const MadeSizes& sizes, DType dtype,
                   MemoryBudget& budget) {
  const bool shared = made.kind == MadeKind::clustered || made.kind == MadeKind::equal;
  const DType drawn = dtype == DType::f64 ? DType::f64 : DType::f32;
  const int64_t shape[] = {sizes.heads, sizes.q_len, sizes.head_dim};
  // In doubles, which hold every count of elements that a tensor can have.
  const double bytes = (shared ? 2.0 : 3.0) * static_cast<double>(sizes.heads) *
                       static_cast<double>(sizes.q_len) * static_cast<double>(sizes.head_dim) *
                       static_cast<double>(size_of(drawn) + (drawn == dtype ? 0 : size_of(dtype)));
  constexpr double kMost = 0x1p62;
  budget.take(static_cast<int64_t>(std::min(bytes, kMost)), "the inputs");
  Tensor query(drawn, shape), value(drawn, shape), key;
  if (!shared) key = Tensor(drawn, shape);
  if (drawn == DType::f64)
    make_all<double>(made, sizes, query, key, value);
  else
    make_all<float>(made, sizes, query, key, value);
  Inputs inputs;
  inputs.query_memory = as_dtype(std::move(query), dtype);
  inputs.value_memory = as_dtype(std::move(value), dtype);
  inputs.query = inputs.query_memory.view();
  inputs.value = inputs.value_memory.view();
  if (shared) {
    inputs.key = inputs.query;
  } else {
    inputs.key_memory = as_dtype(std::move(key), dtype);
    inputs.key = inputs.key_memory.view();
  }
  if (made.kind == MadeKind::clustered) inputs.scale = 1;
  return inputs;
}

}  // namespace rapt::cli

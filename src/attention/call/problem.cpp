// All checks of a call's inputs, made once.
#include "attention/call/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "attention/call/cached_keys.h"
#include "attention/call/learned_parameters.h"
#include "base/check_argument.h"
#include "base/rare.h"

namespace rapt {
namespace {

constexpr int64_t kLargestDim = int64_t{1} << 32;

// Checks a tensor [..., rows, dims]: rank, dtype, and that no length is negative.
void check_matrix(const char* name, const TensorView& view, DType dtype) {
  if (!view.defined()) fail(ErrorCode::argument, name, std::string(name) + " is missing");
  check_rank(name, view);
  if (view.rank < 2)
    fail(ErrorCode::shape, name,
         described(name, view) + " has rank " + std::to_string(view.rank) +
             "; expected at least 2: [..., length, dim]");
  if (view.dtype != dtype)
    fail(ErrorCode::dtype, name,
         std::string(name) + " is " + name_of(view.dtype) + " but query is " + name_of(dtype) +
             "; convert one of them");
  for (int i = 0; i < view.rank; ++i)
    if (view.shape[i] < 0) check_argument(name, [&] { element_count(view.dims()); });  // throws
}

// Broadcasts the leading dimensions of `view` into problem.leading.
void merge_leading(const char* name, const TensorView& view, bool grouped, Problem& p) {
  const int rank = view.rank - 2;
  for (int i = 0; i < rank; ++i) {
    const int at = p.leading_rank - rank + i;
    const int64_t n = view.shape[i];
    int64_t& have = p.leading[at];
    const bool head_axis = at == p.leading_rank - 1;
    if (n == have || n == 1) continue;
    if (have == 1) {
      have = n;
      continue;
    }
    if (grouped && head_axis && n > 0 && have % n == 0) continue;
    fail(ErrorCode::shape, name,
         described(name, view) + ": leading dimension " + std::to_string(i) + " is " +
             std::to_string(n) + " but the others have " + std::to_string(have) +
             (head_axis ? "; expected equal, 1, or a divisor of the query's heads"
                        : "; expected equal or 1"));
  }
}

}  // namespace

void take_operand(const TensorView& view, const Problem& p, Operand& o) {
  o.data = view.data;
  o.dtype = view.dtype;
  o.heads_per_group = 1;
  const int rank = view.rank - 2;
  std::fill_n(o.lead_strides, p.leading_rank, 0);
  for (int i = 0; i < rank; ++i) {
    const int at = p.leading_rank - rank + i;
    const int64_t n = view.shape[i];
    o.lead_strides[at] = n == 1 ? 0 : view.strides[i];
    if (at == p.leading_rank - 1 && n > 1) o.heads_per_group = p.leading[at] / n;
  }
  // The stride of a dimension of length 1 is not used: no pointer leaves the caller's memory, and
  // an empty tensor's null pointer is not moved.
  const int64_t rows = view.shape[view.rank - 2], dims = view.shape[view.rank - 1];
  o.row_stride = rows > 1 ? view.strides[view.rank - 2] : 0;
  o.dim_stride = dims > 1 ? view.strides[view.rank - 1] : 1;
  if (rows == 0 || dims == 0 || p.heads == 0) {
    o.row_stride = 0, o.dim_stride = 1;
    std::fill_n(o.lead_strides, p.leading_rank, 0);
  }
}

namespace {

// A number of bytes as text with six digits, also for small numbers.
std::string memory(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

void check_mask_tensor(const char* name, const TensorView& view) {
  extent_of(name, view);
  check_alignment(name, view);
}

}  // namespace

void check_parameters(const Declaration& declaration, const void* variant) {
  for (const Parameter& parameter : declaration.parameters) {
    const Argument value = parameter.get(variant);
    const bool counts = parameter.type == ParameterType::integer;
    const bool choice = parameter.type == ParameterType::choice;
    if (!counts && !choice && parameter.type != ParameterType::real) continue;
    const double number = counts || choice ? static_cast<double>(value.integer) : value.real;
    const double max =
        choice ? static_cast<double>(parameter.choices.size()) - 1 : parameter.range.max;
    const double min = choice ? 0 : parameter.range.min;
    if (std::isnan(number) && std::isnan(parameter.initial().real)) continue;  // not given
    if (!(number >= min && number <= max))
      throw Error(ErrorCode::argument,
                  std::string(declaration.name) + ": " + parameter.name + " = " +
                      (counts ? std::to_string(value.integer) : memory(number)) +
                      " is out of range; expected " + memory(min) + " to " + memory(max) + ": " +
                      parameter.doc);
  }
}

MaskList::MaskList(Pointers masks) : size_(masks.size()) {
  if (size_ > kMost)
    throw Error(ErrorCode::argument,
                std::to_string(size_) + " masks; a call takes at most " + std::to_string(kMost) +
                    ", combine them in a mask of your own",
                "masks");
  std::copy(masks.begin(), masks.end(), masks_);
}

ScoreList::ScoreList(References scores) : size_(scores.size()) {
  if (size_ > kMost)
    throw Error(ErrorCode::argument,
                std::to_string(size_) + " scores; a call takes at most " + std::to_string(kMost),
                "scores");
  std::copy(scores.begin(), scores.end(), scores_);
}

void Problem::index_of(int64_t flat, int64_t* index) const noexcept {
  for (int i = leading_rank - 1; i >= 0; --i) {
    index[i] = flat % leading[i];
    flat /= leading[i];
  }
}

bool take_bias_operand(const TensorView& bias, const Problem& p, Operand& o) {
  std::fill_n(o.lead_strides, p.leading_rank, 0);
  o.heads_per_group = 1;
  o.row_stride = o.dim_stride = 0;
  if (bias.rank > p.leading_rank + 2) return false;
  for (int i = 0; i < bias.rank; ++i) {
    const int at = p.leading_rank + 2 - bias.rank + i;
    const int64_t n = at < p.leading_rank    ? p.leading[at]
                      : at == p.leading_rank ? p.q_len
                                             : p.k_len;
    if (bias.shape[i] != 1 && bias.shape[i] != n) return false;
    const int64_t stride = bias.shape[i] == 1 ? 0 : bias.strides[i];
    if (at < p.leading_rank)
      o.lead_strides[at] = stride;
    else if (at == p.leading_rank)
      o.row_stride = stride;
    else
      o.dim_stride = stride;
  }
  if (bias.empty()) {  // strides of no element: see take_operand()
    o.row_stride = o.dim_stride = 0;
    std::fill_n(o.lead_strides, p.leading_rank, 0);
  }
  o.data = bias.data;
  o.dtype = bias.dtype;
  return true;
}

namespace {

void take_bias(const TensorView& bias, Problem& p) {
  if (bias.dtype != p.dtype && bias.dtype != p.result_dtype)
    fail(ErrorCode::dtype, "bias",
         std::string("bias is ") + name_of(bias.dtype) + "; expected " + name_of(p.dtype) +
             " as the query" + (p.dtype == p.result_dtype ? "" : ", or f32") +
             (bias.dtype == DType::boolean ? " (a boolean tensor is a mask, not a bias)" : ""));
  if (!take_bias_operand(bias, p, p.bias))
    fail(ErrorCode::shape, "bias",
         described("bias", bias) + " does not broadcast to " + to_string(p.leading_dims()) +
             " + [" + std::to_string(p.q_len) + ", " + std::to_string(p.k_len) + "]");
  p.bias_bytes = extent_of("bias", bias);
  p.has_bias = true;
}

// Whether the variant is of the catalogue, or the caller's own with hooks for the type of the call.
template <class Ref>
void check_hooks(const char* kind, const Ref& variant, const Problem& p, const char* header) {
  if (variant.index >= 0) return;
  const std::string named_variant =
      std::string(kind) + " " + (variant.declaration ? variant.declaration->name : "(none)");
  const bool f64 = p.result_dtype == DType::f64;
  if (f64 ? variant.custom.f64 != nullptr : variant.custom.f32 != nullptr) return;
  if (variant.custom.f32 || variant.custom.f64)
    throw Error(ErrorCode::unsupported,
                named_variant + " has no hooks for " +
                    (f64 ? "double, in which f64" : "float, in which f32, bf16 and f16") +
                    " is computed; write them for any element type (" + header + ")");
  throw Error(ErrorCode::unsupported,
              named_variant +
                  " is not in this build's catalogue (rapt/variants.h), and has "
                  "not the hooks of one of your own (" +
                  header + ")");
}

void check_normalizer(const NormalizerRef& normalizer, const Problem& p) {
  check_hooks("normalizer", normalizer, p, "rapt/normalizer/custom_normalizer.h");
  check_parameters(*normalizer.declaration, normalizer.object);
  check_variant_tensors(normalizer, p);
  if (normalizer.check) normalizer.check(normalizer.object);
}

void check_score(const ScoreRef& score, const Problem& p) {
  check_hooks("score", score, p, "rapt/score/custom_score.h");
  check_parameters(*score.declaration, score.object);
  check_variant_tensors(score, p);
  if (score.check) score.check(score.object, p.leading_dims());
}

void check_masks(const MaskList& masks, const Problem& p) {
  for (const Mask* mask : masks)
    if (!mask) throw Error(ErrorCode::argument, "a null pointer among the masks");
  for_each_mask_tensor(masks, check_mask_tensor);  // before a mask reads them
  for (const Mask* mask : masks) mask->check(p.leading_dims(), p.q_len, p.k_len);
}

// Checks one of the two lists of starts: [sequences + 1] i64, non-decreasing from 0 to `length`.
const int64_t* check_starts(const char* name, const TensorView& starts, int64_t length) {
  if (starts.dtype != DType::i64 || starts.rank != 1)
    throw Error(ErrorCode::dtype, std::string("packed.") + name + " is " + name_of(starts.dtype) +
                                      " " + to_string(starts.dims()) +
                                      "; expected i64 [sequences + 1]");
  if (starts.shape[0] < 2)
    throw Error(ErrorCode::argument, std::string("packed.") + name + " has " +
                                         std::to_string(starts.shape[0]) +
                                         " entries, so there is no sequence; expected at least 2");
  if (!starts.data)
    throw Error(ErrorCode::argument, std::string("packed.") + name + ": null pointer");
  extent_of(name, starts);
  check_alignment(name, starts);
  const auto* at = static_cast<const int64_t*>(starts.data);
  int64_t before = 0;
  for (int64_t i = 0; i < starts.shape[0]; ++i) {
    const int64_t start = at[i * starts.strides[0]];
    if (start < before || (i == 0 && start != 0))
      throw Error(ErrorCode::argument,
                  std::string("packed.") + name + "[" + std::to_string(i) + "] is " +
                      std::to_string(start) +
                      (i == 0 ? "; expected 0" : "; expected at least " + std::to_string(before)));
    before = start;
  }
  if (before != length)
    throw Error(ErrorCode::argument,
                std::string("packed.") + name + " ends at " + std::to_string(before) +
                    "; expected the length of the tensor, " + std::to_string(length));
  return at;
}

void take_packed(const AttentionOptions& options, Problem& p) {
  const TensorView& query = options.packed.query_starts;
  const TensorView& key = options.packed.key_starts.defined() ? options.packed.key_starts : query;
  p.query_starts = check_starts("query_starts", query, p.q_len);
  if (!p.pages.used()) p.key_starts = check_starts("key_starts", key, p.k_len);
  if (query.shape[0] != key.shape[0])
    throw Error(ErrorCode::shape, "packed: query_starts has " + std::to_string(query.shape[0]) +
                                      " entries and key_starts " + std::to_string(key.shape[0]) +
                                      "; expected the same number of sequences");
  p.sequences = query.shape[0] - 1;
  p.query_starts_stride = query.strides[0];
  p.key_starts_stride = key.strides[0];
  if (p.has_bias)
    throw Error(
        ErrorCode::unsupported,
        "a bias of packed sequences: its positions would count from no sequence's own start");
  for_each_mask_tensor(options.masks, [](const char* name, const TensorView& tensor) {
    if (tensor.defined())
      throw Error(
          ErrorCode::unsupported,
          std::string("masks with tensors (") + name +
              ") for packed sequences: masks count positions from each sequence's own start");
  });
}

// Checks the dtypes of inputs, output and results.
void take_dtypes(const TensorView& query, const TensorView& key, const TensorView& value,
                 const AttentionOptions& options, Problem& p) {
  p.dtype = query.dtype;
  check_matrix("query", query, p.dtype);
  if (static_cast<int>(p.dtype) > static_cast<int>(DType::f16))
    fail(ErrorCode::dtype, "query",
         std::string("query is ") + name_of(p.dtype) +
             "; expected f32, f64, bf16 or f16 (convert it first)");
  p.result_dtype = p.dtype == DType::f64 ? DType::f64 : DType::f32;
  p.output_dtype = options.output_dtype.value_or(p.dtype);
  if (p.output_dtype != p.dtype && p.output_dtype != p.result_dtype)
    fail(ErrorCode::dtype, "output_dtype",
         std::string("output_dtype ") + name_of(p.output_dtype) + " for " + name_of(p.dtype) +
             " inputs; expected " + name_of(p.dtype) +
             (p.dtype == p.result_dtype ? "" : " or f32"));
  if (options.precision > Precision::fast)
    fail(ErrorCode::argument, "precision", "unknown precision; expected automatic, fma or fast");
  if (options.bias_order != BiasOrder::after_scores &&
      options.bias_order != BiasOrder::before_scores)
    fail(ErrorCode::argument, "bias_order",
         "unknown bias_order; expected after_scores or before_scores");
  check_matrix("key", key, p.dtype);
  check_matrix("value", value, p.dtype);
}

// Checks that lengths and head sizes agree.
void take_lengths(const TensorView& query, const TensorView& key, const TensorView& value,
                  Problem& p) {
  p.q_len = query.shape[query.rank - 2];
  p.head_dim = query.shape[query.rank - 1];
  p.k_len = key.shape[key.rank - 2];
  p.value_dim = value.shape[value.rank - 1];
  if (key.shape[key.rank - 1] != p.head_dim)
    fail(ErrorCode::shape, "key",
         described("key", key) + " has head_dim " + std::to_string(key.shape[key.rank - 1]) +
             " but " + described("query", query) + " has " + std::to_string(p.head_dim) +
             "; they must be equal");
  if (value.shape[value.rank - 2] != p.k_len)
    fail(ErrorCode::shape, "value",
         described("value", value) + " has " + std::to_string(value.shape[value.rank - 2]) +
             " rows but " + described("key", key) + " has " + std::to_string(p.k_len) +
             "; every key needs one value");
  if (p.head_dim < 1)
    fail(ErrorCode::shape, "query",
         described("query", query) + " has head_dim 0; expected at least 1");

  // With this bound no product of a tile's extents overflows later; no machine holds such a row.
  if (p.head_dim > kLargestDim || p.value_dim > kLargestDim)
    fail(ErrorCode::overflow, "query",
         described("query", query) + " and " + described("value", value) +
             ": head_dim and value_dim may be at most 2^32");
}

// The leading dimensions, to which all inputs broadcast.
void take_leading(const TensorView& query, const TensorView& key, const TensorView& value,
                  Problem& p) {
  const int rank = std::max(query.rank, std::max(key.rank, value.rank));
  p.leading_rank = rank - 2;
  for (int i = 0; i < p.leading_rank; ++i) p.leading[i] = 1;
  if (p.leading_rank > 0) {
    merge_leading("query", query, false, p);
    merge_leading("key", key, true, p);
    merge_leading("value", value, true, p);
    p.heads = element_count(p.leading_dims());
    // Heads that came from the value must also be a multiple of the key's.
    merge_leading("key", key, true, p);
    merge_leading("query", query, false, p);
  }
}

void take_scale(const AttentionOptions& options, Problem& p) {
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.head_dim)));
  if (!std::isfinite(p.scale))
    fail(ErrorCode::argument, "scale",
         "scale is " + std::to_string(p.scale) + "; expected a finite number");

  constexpr double kMostInF32 = 3.4028234663852886e38 / 1.4426950408889634;
  if (p.result_dtype == DType::f32 && std::fabs(p.scale) > kMostInF32)
    fail(ErrorCode::argument, "scale",
         "scale is " + std::to_string(p.scale) + "; times log2(e) it must fit f32");
}

}  // namespace

namespace {

// The problem with `key` and `value` as the call broadcasts them: those of the caller, or a page of
// the caller's cache.
Problem problem_of(const TensorView& query, const TensorView& key, const TensorView& value,
                   const TensorView& all_keys, const TensorView& all_values,
                   const AttentionOptions& options) {
  Problem p;
  take_dtypes(query, key, value, options, p);
  take_lengths(query, key, value, p);
  take_leading(query, key, value, p);
  if (rare(options.cache.defined())) take_capacity(options, p);

  // The output, and tensors with one number per row, must be countable.
  const int64_t output_shape[] = {p.heads, p.q_len, std::max<int64_t>(1, p.value_dim)};
  element_count(output_shape);
  take_operand(query, p, p.query);
  take_operand(key, p, p.key);
  take_operand(value, p, p.value);
  p.query_bytes = extent_of("query", query);
  p.key_bytes = extent_of("key", all_keys);
  p.value_bytes = extent_of("value", all_values);

  take_scale(options, p);
  if (rare(options.dropout.probability != 0)) {
    p.drop_below = check_argument("dropout", [&] { return threshold_of(options.dropout); });
    p.dropout_seed = options.dropout.seed;
  }
  if (rare(options.bias.defined())) take_bias(options.bias, p);
  p.bias_first =
      p.has_bias && !options.scores.empty() && options.bias_order == BiasOrder::before_scores;
  check_argument("normalizer", [&] { check_normalizer(options.normalizer, p); });
  check_argument("scores", [&] {
    for (const ScoreRef& score : options.scores) check_score(score, p);
  });
  check_argument("masks", [&] { check_masks(options.masks, p); });
  if (rare(options.packed.defined()))
    check_argument("packed", [&] { take_packed(options, p); });
  else if (options.packed.key_starts.defined())
    fail(ErrorCode::argument, "packed",
         "packed.key_starts without packed.query_starts; expected both, or query_starts");
  if (p.pages.used()) take_pages(all_keys, all_values, options, p);
  take_row_transform(options, p);
  check_argument("relative", [&] { take_relative(options, p); });
  return p;
}

}  // namespace

Problem make_problem(const TensorView& query, const TensorView& key, const TensorView& value,
                     const AttentionOptions& options) {
  if (!rare(options.cache.defined())) return problem_of(query, key, value, key, value, options);
  return problem_of(query, one_page("key", query, key, options),
                    one_page("value", query, value, options), key, value, options);
}

void require_data(const TensorView& query, const TensorView& key, const TensorView& value,
                  const AttentionOptions& options, const Problem& problem) {
  const auto require = [](const char* name, const TensorView& view) {
    if (!view.data && !view.empty())
      fail(ErrorCode::argument, name,
           described(name, view) + " has elements but a null data pointer");
    check_alignment(name, view);
  };
  require("query", query);
  require("key", key);
  require("value", value);
  if (rare(problem.has_bias)) require("bias", options.bias);
  check_argument("scores", [&] {
    for (const ScoreRef& score : options.scores) for_each_tensor_of(score, require);
  });
  check_argument("normalizer", [&] { for_each_tensor_of(options.normalizer, require); });
  if (problem.relative.any())
    check_argument("relative", [&] { for_each_relative_tensor(options.relative, require); });
  check_argument("method", [&] {
    for_each_method_tensor(options.method,
                           [&](const Parameter& parameter, const TensorView& tensor) {
                             require(parameter.name, tensor);
                           });
  });
}

}  // namespace rapt

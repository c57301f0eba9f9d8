// Reads a descriptor: one pass from left to right, by the grammar of descriptor.h.
#include <algorithm>

#include "check/problem/descriptor.h"
#include "check/problem/parse_cache.h"
#include "check/problem/parse_elements.h"
#include "check/problem/parse_masks.h"
#include "check/problem/parse_method.h"
#include "check/problem/parse_normalizer.h"
#include "check/problem/parse_relative.h"
#include "check/problem/parse_rows.h"
#include "check/problem/parse_scores.h"
#include "check/problem/scanner.h"

namespace check {
namespace {

constexpr double kLargest = 1e30;  // of scale and magnitude: f32 holds their products

DType parse_dtype(Scanner& in) {
  const size_t begin = in.position();
  const std::string_view name = in.word();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (name == rapt::name_of(dtype)) return dtype;
  in.go_back_to(begin);
  in.fail("expected f32, f64, bf16 or f16");
}

class DescriptorParser {
 public:
  explicit DescriptorParser(std::string_view text) : in_(text) {}

  Descriptor parse() {
    shape();
    while (!in_.at_end()) {
      in_.expect(":");
      field();
    }
    finish();
    return std::move(d_);
  }

 private:
  int64_t length(const char* what) { return in_.integer(0, kMaxLength, what); }

  void shape() {
    bool has_heads = false;
    if (in_.next_is('[')) {
      d_.leading = in_.list(kMaxLeading, kMaxLength, "leading dimensions");
    } else if (in_.take("b")) {
      d_.leading.push_back(length("the number of batches"));
    }
    int64_t kv_heads = 0;
    if (in_.take("h")) {
      has_heads = true;
      d_.leading.push_back(length("the number of heads"));
      kv_heads = d_.leading.back();
      if (in_.take("/")) {
        kv_heads = in_.integer(1, kMaxLength, "the number of key heads");
        if (d_.leading.back() % kv_heads != 0)
          in_.fail("expected a number of key heads that divides " +
                   std::to_string(d_.leading.back()));
      }
    }
    if (d_.leading.size() > kMaxLeading)
      in_.fail("expected at most " + std::to_string(kMaxLeading) + " leading dimensions");
    d_.query.leading = d_.key.leading = d_.value.leading = d_.leading;
    if (has_heads) d_.key.leading.back() = d_.value.leading.back() = kv_heads;
    if (!in_.next_is('q'))
      in_.fail(d_.leading.empty() ? "expected b, h, '[' or q and a number" : "expected q");
    in_.expect("q");
    d_.q_len = length("the number of queries");
    in_.expect("k");
    d_.k_len = length("the number of keys");
    in_.expect("d");
    d_.head_dim = in_.integer(1, kMaxLength, "head_dim");
    d_.value_dim = in_.take("v") ? length("value_dim") : d_.head_dim;
  }

  void field() {
    const size_t begin = in_.position();
    const std::string name(in_.word());
    if (std::ranges::find(seen_, name) != seen_.end()) {
      in_.go_back_to(begin);
      in_.fail("expected every field once");
    }
    seen_.push_back(name);
    if (name == "relative") relative_at_ = begin;
    if (input_field(name) || variant_field(name) || call_field(name) || capture_field(name)) return;
    in_.go_back_to(begin);
    if (has_dtype_ || !is_dtype(name))
      in_.fail(
          "expected a field: f32, f64, bf16, f16, query, key, value, layout, mask, bias, scale, "
          "score, rows, relative, norm, method, precision, invariant, packed, cache, dropout, "
          "weights, "
          "map, top_k, entropy, received, backward, magnitude, keys, set or seed");
    dtypes();
  }

  // Each of these four reads a field of its group; false: `name` is no field of it.
  bool input_field(std::string_view name) {
    if (name == "query") {
      input(d_.query);
    } else if (name == "key") {
      input(d_.key);
    } else if (name == "value") {
      input(d_.value);
    } else if (name == "layout") {
      layouts();
    } else if (name == "bias") {
      bias();
    } else if (name == "magnitude") {
      in_.expect("=");
      d_.magnitude = in_.real(0, kLargest, "a magnitude of at least 0");
    } else if (name == "keys") {
      in_.expect("=");
      d_.keys = in_.take("equal") ? Keys::equal : Keys::rising;
      if (d_.keys == Keys::rising) in_.expect("rising");
    } else if (name == "set") {
      in_.expect("=");
      elements_at_ = in_.position();
      d_.elements = parse_elements(in_);
    } else if (name == "seed") {
      in_.expect("=");
      d_.seed = in_.whole("a seed");
    } else {
      return false;
    }
    return true;
  }

  bool variant_field(std::string_view name) {
    constexpr std::string_view kNames[] = {"mask", "score", "rows", "relative", "norm", "method"};
    if (std::ranges::find(kNames, name) == std::end(kNames)) return false;
    in_.expect("=");
    if (name == "mask") d_.masks = parse_masks(in_, d_);
    if (name == "score") d_.scores = parse_scores(in_, d_);
    if (name == "rows") d_.rows = parse_rows(in_, d_);
    if (name == "relative") d_.relative = parse_relative(in_, d_);
    if (name == "norm") d_.normalizer = parse_normalizer(in_);
    if (name == "method") d_.method = parse_method(in_);
    return true;
  }

  bool call_field(std::string_view name) {
    if (name == "scale") {
      d_.scale = real("a scale");
    } else if (name == "precision") {
      in_.expect("=");
      if (in_.take("fma"))
        d_.precision = rapt::Precision::fma;
      else if (in_.take("fast"))
        d_.precision = rapt::Precision::fast;
      else
        in_.expect("automatic");
    } else if (name == "invariant") {
      d_.invariant = true;
    } else if (name == "packed") {
      in_.expect("=");
      d_.packed = in_.integer(1, kMaxLength, "the number of sequences");
    } else if (name == "cache") {
      in_.expect("=");
      cache_at_ = in_.position();
      d_.cache = parse_cache(in_, d_);
    } else if (name == "dropout") {
      dropout();
    } else if (name == "backward") {
      backward();
    } else {
      return false;
    }
    return true;
  }

  bool capture_field(std::string_view name) {
    Captures& captures = d_.captures;
    if (name == "weights") {
      weights();
    } else if (name == "map") {
      map();
    } else if (name == "top_k") {
      in_.expect("(");
      captures.top_k = in_.integer(1, d_.k_len, "top_k");
      in_.expect(")");
    } else if (name == "entropy") {
      captures.entropy = true;
    } else if (name == "received") {
      captures.received = true;
    } else {
      return false;
    }
    return true;
  }

  static bool is_dtype(std::string_view name) {
    return name == "f32" || name == "f64" || name == "bf16" || name == "f16";
  }

  void dtypes() {
    has_dtype_ = true;
    d_.dtype = parse_dtype(in_);
    const size_t at = in_.position();
    if (!in_.take(">")) return;
    const DType output = parse_dtype(in_);
    const bool wider = output == DType::f32 && rapt::size_of(d_.dtype) == 2;
    if (output != d_.dtype && !wider) {
      in_.go_back_to(at + 1);
      in_.fail("expected the inputs' dtype, or f32 for bf16 and f16");
    }
    if (output != d_.dtype) d_.output_dtype = output;
  }

  double real(const std::string& what) {
    in_.expect("=");
    return in_.real(-kLargest, kLargest, what + " of at most 1e30");
  }

  void input(Side& side) {
    in_.expect("=");
    const size_t begin = in_.position();
    side.leading = in_.list(kMaxLeading, kMaxLength, "leading dimensions");
    if (side.leading.size() > d_.leading.size()) {
      in_.go_back_to(begin);
      in_.fail("expected no more leading dimensions than " + to_string(d_.leading));
    }
    inputs_end_ = begin;
  }

  void layouts() {
    in_.expect("=");
    layouts_at_ = in_.position();
    d_.query = side(d_.query);
    Side* others[] = {&d_.key, &d_.value, &d_.bias};
    if (!in_.next_is(',')) {
      for (Side* other : others) {
        other->layout = d_.query.layout;
        other->repeated = d_.query.repeated;
      }
      // A dimension of the bias has another meaning than one of the inputs.
      d_.bias.repeated = -1;
      return;
    }
    in_.expect(",");
    d_.key = side(d_.key);
    in_.expect(",");
    d_.value = side(d_.value);
    if (in_.take(",")) d_.bias = side(d_.bias);
  }

  Side side(Side side) {
    bool broadcast = in_.take("broadcast(");
    if (!broadcast) {
      const size_t begin = in_.position();
      const std::string_view name = in_.word();
      const auto* found = std::ranges::find(kLayoutNames, name);
      if (found == std::end(kLayoutNames)) {
        in_.go_back_to(begin);
        in_.fail("expected dense, padded, transposed, negative, strided, interleaved or broadcast");
      }
      side.layout = static_cast<Layout>(found - std::begin(kLayoutNames));
      broadcast = in_.take("+broadcast(");
    }
    if (broadcast) {
      side.repeated = static_cast<int>(in_.integer(0, kMaxLeading + 1, "a dimension"));
      in_.expect(")");
    }
    return side;
  }

  void bias() {
    d_.has_bias = true;
    d_.bias_dims = {d_.q_len, d_.k_len};
    if (!in_.take("=")) return;
    bool has_dims = false, has_part = false, has_dtype = false;
    do {
      const size_t begin = in_.position();
      if (in_.next_is('[') && !has_dims) {
        has_dims = true;
        d_.bias_dims = in_.list(kMaxLeading + 2, kMaxLength, "dimensions");
        Dims full = d_.leading;
        full.insert(full.end(), {d_.q_len, d_.k_len});
        bool fits = d_.bias_dims.size() >= 2 && d_.bias_dims.size() <= full.size();
        for (size_t i = 0; fits && i < d_.bias_dims.size(); ++i)
          fits = d_.bias_dims[i] == 1 ||
                 d_.bias_dims[i] == full[full.size() - d_.bias_dims.size() + i];
        if (!fits) {
          in_.go_back_to(begin);
          in_.fail("expected at least the last two dimensions of " + to_string(full) +
                   ", or 1 for each");
        }
      } else if (in_.next_is_digit() && !has_part) {
        has_part = true;
        d_.excluded_by_bias = in_.real(0, 1, "the part that is -inf, from 0 to 1");
      } else if (!d_.bias_first && in_.take("before")) {
        d_.bias_first = true;
        bias_first_at_ = begin;
      } else if (!has_dtype && !in_.next_is('[') && !in_.next_is_digit()) {
        has_dtype = true;
        bias_dtype_at_ = begin;
        d_.bias_dtype = parse_dtype(in_);
      } else {
        in_.fail("expected dimensions, a part, a dtype and before, each once");
      }
    } while (in_.take(","));
  }

  void dropout() {
    constexpr double kBelowOne = 1 - 0x1p-53;
    in_.expect("=");
    d_.dropout = in_.real(0, kBelowOne, "a probability from 0 to below 1");
    if (in_.take(",")) d_.dropout_seed = in_.whole("a seed");
    if (d_.dropout == 0) d_.dropout_seed = 0;  // draws nothing
  }

  int64_t heads() const {
    int64_t heads = 1;
    for (const int64_t length : d_.leading)
      if (__builtin_mul_overflow(heads, length, &heads)) return INT64_MAX;
    return heads;
  }

  Dims chosen_heads() {
    in_.expect("heads=");
    return chosen(heads(), "a head below " + std::to_string(heads()));
  }

  Dims chosen(int64_t below, const std::string& what) {
    const size_t begin = in_.position();
    Dims values = in_.list(kMaxListed, kMaxLength, what);
    if (values.empty() || std::ranges::any_of(values, [&](int64_t v) { return v >= below; })) {
      in_.go_back_to(begin);
      in_.fail("expected " + what);
    }
    return values;
  }

  void weights() {
    WeightsWanted& wanted = d_.captures.weights.emplace();
    if (!in_.take("(")) return;
    const std::string below = std::to_string(d_.q_len);
    if (in_.next_is('[')) {
      wanted.rows = chosen(d_.q_len, "a query below " + below);
    } else if (in_.next_is_digit()) {
      wanted.begin = in_.integer(0, d_.q_len, "a query");
      in_.expect("..");
      wanted.end = in_.integer(wanted.begin, d_.q_len, "a query");
      if (wanted.begin == 0 && wanted.end == d_.q_len) wanted.end = -1;
    } else {
      wanted.heads = chosen_heads();
      in_.expect(")");
      return;
    }
    if (in_.take(",")) wanted.heads = chosen_heads();
    in_.expect(")");
  }

  void map() {
    MapWanted& wanted = d_.captures.map.emplace();
    in_.expect("(");
    wanted.rows = in_.integer(1, d_.q_len, "rows of the map");
    in_.expect(",");
    wanted.columns = in_.integer(1, d_.k_len, "columns of the map");
    while (in_.take(",")) {
      if (in_.take("mean"))
        wanted.pooling = Pooling::mean;
      else if (in_.take("max"))
        wanted.pooling = Pooling::max;
      else if (in_.take("sum"))
        wanted.pooling = Pooling::sum;
      else
        wanted.heads = chosen_heads();
    }
    in_.expect(")");
  }

  void backward() {
    in_.expect("=");
    backward_at_ = in_.position();
    do {
      const size_t begin = in_.position();
      const std::string_view name = in_.word();
      bool BackwardWanted::*const item = name == "lse"   ? &BackwardWanted::d_lse
                                         : name == "f32" ? &BackwardWanted::f32
                                         : name == "two" ? &BackwardWanted::two_passes
                                                         : nullptr;
      if (!item || d_.backward.*item) {
        in_.go_back_to(begin);
        in_.fail("expected lse, f32 and two, each once");
      }
      d_.backward.*item = true;
    } while (in_.take(","));
  }

  // Checks what needs all fields.
  void finish() {
    const auto broadcast = broadcast_of(d_.query.leading, d_.key.leading, d_.value.leading);
    if (!broadcast || *broadcast != d_.leading) {
      in_.go_back_to(inputs_end_);
      in_.fail("expected leading dimensions of query, key and value that give " +
               to_string(d_.leading));
    }
    if (!d_.has_bias) d_.bias = {};
    for (const Side* side : {&d_.query, &d_.key, &d_.value})
      if (side->repeated >= static_cast<int>(side->leading.size()) + 2) refuse_layout();
    if (d_.has_bias && d_.bias.repeated >= static_cast<int>(d_.bias_dims.size())) refuse_layout();
    const bool tensor = std::ranges::any_of(d_.masks, &MaskSpec::holds_tensor) || d_.has_bias;
    if (d_.packed > 0 && tensor)
      in_.fail("expected neither a bias nor lengths, boolean or documents beside packed");
    if (d_.packed > 0 && (d_.captures.weights || d_.captures.map))
      in_.fail("expected neither weights nor a map beside packed");
    if (d_.bias_dtype == d_.dtype) d_.bias_dtype.reset();
    if (d_.bias_dtype && (*d_.bias_dtype != DType::f32 || rapt::size_of(d_.dtype) != 2)) {
      in_.go_back_to(bias_dtype_at_);
      in_.fail("expected the query's dtype, or f32 for bf16 and f16");
    }
    if (d_.bias_first && d_.scores.empty()) {
      in_.go_back_to(bias_first_at_);
      in_.fail("expected no before without a score");
    }
    if (d_.rows.any() && d_.relative.any()) {
      in_.go_back_to(relative_at_);
      in_.fail("expected no relative beside rows");
    }
    if (d_.backward.two_passes && d_.relative.any()) {
      in_.go_back_to(backward_at_);
      in_.fail("expected one pass beside relative");
    }
    if (d_.backward.f32 && rapt::size_of(d_.dtype) != 2) {
      in_.go_back_to(backward_at_);
      in_.fail("expected f32 for bf16 and f16 alone");
    }
    if (d_.cache) {
      in_.go_back_to(cache_at_);
      check_beside_cache(in_, d_);
    }
    check_sizes();
    for (const ElementSpec& element : d_.elements)
      if (!exists(element, d_)) {
        in_.go_back_to(elements_at_);
        in_.fail("expected elements that the problem has, not " + to_string(element));
      }
  }

  [[noreturn]] void refuse_layout() {
    in_.go_back_to(layouts_at_);
    in_.fail("expected broadcast() of a dimension that the tensor has");
  }

  // Checks that the bytes of each tensor fit 64 bits. Whether they fit into memory is checked
  // later.
  void check_sizes() {
    const auto count = [&](const Dims& leading, int64_t rows, int64_t columns) {
      Dims dims = leading;
      dims.insert(dims.end(), {rows, columns});
      // A length of 0 makes the tensor empty, but heads and strides are products of the other
      // lengths.
      std::ranges::replace(dims, 0, 1);
      try {
        rapt::element_count(dims);
      } catch (const rapt::Error&) {
        in_.go_back_to(0);
        in_.fail("expected sizes whose product fits into 64 bits");
      }
    };
    count(d_.query.leading, d_.q_len, d_.head_dim);
    count(d_.key.leading, d_.k_len, d_.head_dim);
    count(d_.value.leading, d_.k_len, d_.value_dim);
    count(d_.leading, d_.q_len, std::max({d_.value_dim, d_.k_len, d_.head_dim}));
    count(d_.leading, d_.k_len, 1);
    for (const RelativeTable& table : d_.relative.tables)
      count(table.leading, d_.relative.distances, std::max(d_.head_dim, d_.value_dim));
  }

  Scanner in_;
  Descriptor d_;
  std::vector<std::string> seen_;
  bool has_dtype_ = false;
  size_t inputs_end_ = 0, bias_dtype_at_ = 0, bias_first_at_ = 0, layouts_at_ = 0;
  size_t backward_at_ = 0, cache_at_ = 0, relative_at_ = 0, elements_at_ = 0;
};

}  // namespace

Descriptor parse_descriptor(std::string_view text) {
  if (text.size() > kMaxText)
    throw rapt::Error(rapt::ErrorCode::argument,
                      "descriptor: expected at most " + std::to_string(kMaxText) +
                          " characters, got " + std::to_string(text.size()));
  return DescriptorParser(text).parse();
}

}  // namespace check

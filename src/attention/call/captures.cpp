// Checks of the requested captures, and the shapes of all outputs.
#include "attention/call/captures.h"

#include <algorithm>
#include <string>

#include "base/check_argument.h"

namespace rapt {
namespace {

ChosenHeads chosen_heads(const char* name, std::span<const int64_t> heads, const Problem& p) {
  for (const int64_t head : heads)
    if (head < 0 || head >= p.heads)
      fail(ErrorCode::argument, name,
           std::string(name) + ": head " + std::to_string(head) +
               " does not exist; the problem has " + std::to_string(p.heads));
  return {heads, heads.empty() ? p.heads : static_cast<int64_t>(heads.size())};
}

RequestedWeights requested_weights(const Problem& p, const WeightsRequest& request) {
  RequestedWeights w;
  w.wanted = true;
  if (request.stage != WeightsStage::weights && request.stage != WeightsStage::scores)
    fail(ErrorCode::argument, "weights", "weights: unknown stage; expected weights or scores");
  w.stage = request.stage;
  w.heads = chosen_heads("weights", request.heads, p);
  if (!request.rows.empty()) {
    if (request.row_begin != 0 || request.row_end != kToEnd)
      fail(ErrorCode::argument, "weights",
           "weights: both chosen rows and a range of rows; expected one");
    for (const int64_t row : request.rows)
      if (row < 0 || row >= p.q_len)
        fail(ErrorCode::argument, "weights",
             "weights: row " + std::to_string(row) + " does not exist; there are " +
                 std::to_string(p.q_len) + " queries");
    w.chosen_rows = request.rows;
    w.row_begin = 0;
    w.rows = static_cast<int64_t>(request.rows.size());
    return w;
  }
  const int64_t end = request.row_end == kToEnd ? p.q_len : request.row_end;
  if (request.row_begin < 0 || end < request.row_begin || end > p.q_len)
    fail(ErrorCode::argument, "weights",
         "weights: rows [" + std::to_string(request.row_begin) + ", " + std::to_string(end) +
             ") are not within the " + std::to_string(p.q_len) + " queries");
  w.row_begin = request.row_begin;
  w.rows = end - request.row_begin;
  return w;
}

RequestedMap requested_map(const Problem& p, const MapRequest& request) {
  if (request.rows < 1 || request.rows > p.q_len || request.columns < 1 ||
      request.columns > p.k_len)
    fail(ErrorCode::argument, "map",
         "map of " + std::to_string(request.rows) + " x " + std::to_string(request.columns) +
             " cells; expected 1 to " + std::to_string(p.q_len) + " rows (queries) and 1 to " +
             std::to_string(p.k_len) + " columns (keys)");
  if (request.pool != Pool::mean && request.pool != Pool::max && request.pool != Pool::sum)
    fail(ErrorCode::argument, "map", "map: unknown pool; expected mean, max or sum");
  const int64_t cells[] = {request.rows, request.columns};
  check_argument("map", [&] { element_count(cells); });  // throws if there are too many
  return {true, chosen_heads("map", request.heads, p), request.rows, request.columns, request.pool};
}

}  // namespace

Captures requested_captures(const Problem& p, const AttentionOptions& options) {
  Captures captures;
  if (options.add_received && !options.received)
    fail(ErrorCode::argument, "add_received",
         "add_received without received; expected both, or received alone");
  if (!options.weights && !options.map && options.top_k == 0 && !options.entropy &&
      !options.received)
    return captures;
  if (p.query_starts && (options.weights || options.map))
    fail(ErrorCode::unsupported, options.weights ? "weights" : "map",
         "weights and maps of packed sequences: their rows have keys of different sequences; ask "
         "for top_k, entropy or received, or call each sequence by itself");
  if (options.weights) captures.weights = requested_weights(p, *options.weights);
  if (options.map) captures.map = requested_map(p, *options.map);
  if (options.top_k < 0 || options.top_k > p.k_len)
    fail(ErrorCode::argument, "top_k",
         "top_k is " + std::to_string(options.top_k) + "; expected 0 to " +
             std::to_string(p.k_len) + ", the number of keys");
  constexpr int64_t kMostKeys = int64_t{1} << 31;  // keys are counted in 32 bits beside f32 scores
  if (options.top_k > 0 && p.k_len > kMostKeys)
    fail(ErrorCode::unsupported, "top_k", "top_k: at most 2^31 keys");
  captures.top_k = options.top_k;
  captures.entropy = options.entropy;
  captures.received = options.received;
  captures.adds_received = options.add_received;
  const int64_t keys[] = {p.heads, p.k_len};
  if (options.received)
    check_argument("received", [&] { element_count(keys); });  // throws if there are too many
  return captures;
}

bool wants_weights_of_few(const CheckedCall& call) {
  const AttentionOptions& options = call.options;
  const std::optional<WeightsRequest>& w = options.weights;
  if ((!w && !options.received) || options.map || call.problem.head_queries() > kFewQueries)
    return false;
  // Received attention is a sum of weights, which are kept in scratch if they are not returned.
  if (call.context.memory == Memory::low && (!w || w->stage == WeightsStage::scores) &&
      options.received)
    return false;
  return !w || (w->heads.empty() && w->rows.empty() && w->row_begin == 0 &&
                (w->row_end == kToEnd || w->row_end == call.problem.q_len));
}

void describe_outputs(const Problem& p, const Captures& c, bool statistic,
                      OutputSpec (&specs)[kOutputs]) {
  const auto name = [&](int i, const char* text, TensorView AttentionOutputs::*view,
                        Tensor AttentionResult::*tensor, DType dtype) {
    specs[i].name = text, specs[i].view = view, specs[i].tensor = tensor, specs[i].dtype = dtype;
    specs[i].wanted = false;
  };
  const auto put = [](OutputSpec& spec, Shape lead, std::initializer_list<int64_t> matrix) {
    spec.wanted = true, spec.rank = 0;
    for (const int64_t n : lead) spec.shape[spec.rank++] = n;
    for (const int64_t n : matrix) spec.shape[spec.rank++] = n;
  };
  const auto put_heads = [&](OutputSpec& spec, const ChosenHeads& heads, int64_t rows,
                             int64_t columns) {
    const Shape chosen(&heads.count, 1);
    put(spec, heads.chosen.empty() ? p.leading_dims() : chosen, {rows, columns});
  };
  const Shape lead = p.leading_dims();
  name(0, "output", nullptr, &AttentionResult::output, p.output_dtype);
  put(specs[0], lead, {p.q_len, p.value_dim});
  name(1, "statistic", nullptr, &AttentionResult::statistic, p.result_dtype);
  if (statistic) put(specs[1], lead, {p.q_len});
  name(2, "weights", &AttentionOutputs::weights, &AttentionResult::weights, p.result_dtype);
  if (c.weights.wanted) put_heads(specs[2], c.weights.heads, c.weights.rows, p.k_len);
  name(3, "map", &AttentionOutputs::map, &AttentionResult::map, p.result_dtype);
  if (c.map.wanted) put_heads(specs[3], c.map.heads, c.map.rows, c.map.columns);
  name(4, "top_keys", &AttentionOutputs::top_keys, &AttentionResult::top_keys, DType::i64);
  name(5, "top_weights", &AttentionOutputs::top_weights, &AttentionResult::top_weights,
       p.result_dtype);
  if (c.top_k > 0) {
    put(specs[4], lead, {p.q_len, c.top_k});
    put(specs[5], lead, {p.q_len, c.top_k});
  }
  name(6, "entropy", &AttentionOutputs::entropy, &AttentionResult::entropy, p.result_dtype);
  if (c.entropy) put(specs[6], lead, {p.q_len});
  name(7, "received", &AttentionOutputs::received, &AttentionResult::received, p.result_dtype);
  if (c.received) put(specs[7], lead, {p.k_len});
}

}  // namespace rapt

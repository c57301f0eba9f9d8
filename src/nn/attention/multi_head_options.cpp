#include "nn/attention/multi_head_options.h"

#include <algorithm>
#include <string>

#include "nn/attention/learned_tensors.h"

namespace rapt::nn {
namespace {

[[noreturn]] void reject_option(ErrorCode code, const char* message) {
  throw Error(code, std::string("multi-head attention: ") + message);
}

bool has_captures(const AttentionOptions& o) noexcept {
  return o.weights || o.map || o.top_k != 0 || o.entropy || o.received;
}

// The softmax of the catalogue, which is the default.
bool is_softmax(const NormalizerRef& normalizer) noexcept {
  return normalizer.index == index_in<Softmax>(Normalizers{});
}

void check_options(const MultiHeadAttention& layer, const MultiHeadCall& call) {
  if (has_captures(layer.options))
    reject_option(ErrorCode::argument,
                  "captures among the options of the layer; give them to the call, with memory for "
                  "their results");
  for (const AttentionOptions* options : {&layer.options, &call.options}) {
    if (options->output_dtype)
      reject_option(ErrorCode::argument,
                    "output_dtype among the options; results have the dtype of the layer");
    if (options->dropout.probability != 0)
      reject_option(ErrorCode::argument,
                    "dropout among the options; set `dropout` and `dropout_stream` of the layer");
    if (options->packed.defined() && layer.appended_keys() > 0)
      reject_option(ErrorCode::unsupported,
                    "packed sequences beside bias_k, which is one key at the end of the tensor");
  }
}

bool turns(const RotaryPositions& positions) noexcept {
  return positions.values.defined() || positions.start != 0 || positions.step != 1;
}

}  // namespace

MultiHeadOptions::MultiHeadOptions(const MultiHeadAttention& layer, const MultiHeadCall& call,
                                   const Run& run, bool captures)
    : options_(layer.options) {
  check_options(layer, call);
  const AttentionOptions& more = call.options;
  take_masks(layer, call);
  take_scores(more);
  take_positions(more);
  AttentionOptions& to = options_;
  if (more.scale) to.scale = more.scale;
  if (more.bias.defined()) to.bias = more.bias;
  if (more.bias_order != BiasOrder::after_scores) to.bias_order = more.bias_order;
  if (!is_softmax(more.normalizer)) to.normalizer = more.normalizer;
  if (more.method) to.method = more.method;
  if (more.precision != Precision::automatic) to.precision = more.precision;
  to.invariant |= more.invariant;
  if (more.packed.defined()) to.packed = more.packed;
  if (more.cosine) to.cosine = more.cosine;
  if (run.training && layer.dropout != 0)
    to.dropout = {layer.dropout, stream_seed(run.seed, layer.dropout_stream)};
  if (captures) {
    to.weights = more.weights, to.map = more.map, to.top_k = more.top_k;
    to.entropy = more.entropy, to.received = more.received;
    to.add_received = more.add_received;
  }
  check_learned_tensors(layer.learned, to);
}

void MultiHeadOptions::take_masks(const MultiHeadAttention& layer, const MultiHeadCall& call) {
  const MaskList& own = layer.options.masks;
  const MaskList& more = call.options.masks;
  if (!more.empty()) {
    const Mask* all[2 * MaskList::kMost];
    const Mask** const end =
        std::copy(more.begin(), more.end(), std::copy(own.begin(), own.end(), all));
    options_.masks = std::span<const Mask* const>(all, end);
  }
  if (layer.appended_keys() == 0 || options_.masks.empty()) return;
  mask_.emplace(std::span<const Mask* const>(options_.masks));
  options_.masks = {&*mask_};
}

void MultiHeadOptions::take_scores(const AttentionOptions& call) {
  if (call.scores.empty()) return;
  ScoreRef all[2 * ScoreList::kMost];
  ScoreRef* const end = std::copy(call.scores.begin(), call.scores.end(),
                                  std::copy(options_.scores.begin(), options_.scores.end(), all));
  options_.scores = std::span<const ScoreRef>(all, end);
}

// Positions of the call go with the layer's embedding, and its center with the layer's tables.
void MultiHeadOptions::take_positions(const AttentionOptions& call) {
  const Rotary* const own = options_.rotary.embedding;
  if (call.rotary.embedding || turns(call.rotary.query) || turns(call.rotary.key) ||
      !call.rotary.rotate_key) {
    options_.rotary = call.rotary;
    if (!call.rotary.embedding) options_.rotary.embedding = own;
  }
  if (call.relative.any())
    options_.relative = call.relative;
  else if (call.relative.center != kMiddleRow)
    options_.relative.center = call.relative.center;
}

}  // namespace rapt::nn

#include <algorithm>
#include <span>

#include "nn/attention/head_groups.h"
#include "nn/attention/head_norms.h"
#include "nn/attention/learned_tensors.h"
#include "nn/attention/multi_head_parts.h"
#include "nn/attention/store_sums.h"
#include "nn/leading.h"

namespace rapt::nn {
namespace {

// Of the gradients of projections. A norm's gradient has the dtype of its input.
DType gradient_type(const MultiHeadAttention& layer) {
  return layer.q_norm ? layer.dtype() : computed_type(layer.dtype());
}

// One of query, key and value, or all three of self-attention: its part of the projections, the
// input that it is made of, and the gradients.
struct ProjectedPart {
  ProjectionPart part;
  const TensorView* input;
  const TensorView* d_input;  // undefined: not computed
  Parameter* appended;        // bias_k, bias_v; null: none
  int64_t appended_rows;      // at the end of each sequence of the projection
  TensorView gradient = {};   // of the projection; undefined: not needed
};

class MultiHeadBackward {
 public:
  MultiHeadBackward(MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
                    const MultiHeadAttention::State& state, const TensorView& d_x, const Run& run,
                    bool add, const MultiHeadCall& call, const MultiHeadGradients& gradients,
                    int64_t key_heads)
      : layer_(layer),
        d_y_(d_y),
        state_(state),
        d_x_(d_x),
        run_(run),
        add_(add),
        options_(layer, call, run, false),
        products_{run} {
    const bool cross = call.key_value.defined();
    const TensorView& keys = cross ? call.key_value : x;
    const TensorView& d_keys = cross ? gradients.key_value : d_x;
    const bool apart = call.value.defined();
    parts_[0] = {query_part(layer), &x, &d_x, nullptr, 0};
    parts_[1] = {key_part(layer), &keys, &d_keys, &layer.bias_k, layer.appended_keys()};
    parts_[2] = {value_part(layer), apart ? &call.value : &keys, apart ? &gradients.value : &d_keys,
                 &layer.bias_v, layer.appended_keys()};
    request_.query = needs(parts_[0]);
    request_.key = needs(parts_[1]);
    request_.value = needs(parts_[2]);
    request_.dtype = gradient_type(layer);
    request_learned_gradients(layer.learned, *options_, gradients.bias,
                              computed_type(layer.dtype()), run.scratch, request_, outputs_);
    if (run.context.memory == Memory::low && !request_.relative)
      request_.passes = BackwardPasses::two;
    group_ = can_group() ? std::min(key_heads, layer.num_kv_heads) : layer.num_kv_heads;
    if (!grouped() && !state.key_value.defined() && layer.in_proj_weight.defined()) {
      parts_[0].part = {0, layer.inner() + 2 * layer.kv()};
      part_count_ = 1;
    }
  }

  void operator()() {
    for (int64_t first = 0; first < layer_.num_kv_heads; first = group_after(first)) {
      const Arena::Frame frame(run_.scratch);
      if (grouped()) begin_group(first);
      attention_gradients();
      // Gradients of parameters are added from here on: attention has accepted the options.
      if (!run_.counts()) add_learned_gradients(layer_.learned, *options_, outputs_, run_.context);
      norm_gradients();
      if (first == 0) backward(layer_.out_proj, state_.attention, d_y_, {}, run_);
      for (const ProjectedPart& part : parts())
        if (part.gradient.defined()) weight_gradients(part);
      input_gradients();
      add_ = true;  // the next group
    }
  }

 private:
  // A counting run computes the first group, like which all but the last are, and the last. The
  // last may be smaller and yet need more: fewer heads may be given to more workers.
  int64_t group_after(int64_t first) const {
    const int64_t last = (layer_.num_kv_heads - 1) / group_ * group_;
    return run_.counts() && first < last ? last : first + group_;
  }

  std::span<const ProjectedPart> parts() const {
    return {parts_, static_cast<size_t>(part_count_)};
  }
  bool needs(const ProjectedPart& part) const {
    return part.d_input->defined() || weight_of(layer_, part.part).learns() ||
           layer_.in_proj_bias.learns() || (part.appended && part.appended->learns()) ||
           norms_learn();
  }
  bool norms_learn() const {
    return layer_.q_norm && (layer_.q_norm->weight.learns() || layer_.k_norm->weight.learns());
  }

  bool grouped() const { return group_ < layer_.num_kv_heads; }
  // Gradients that all heads share, and sums in 16 bits, are made of all heads at once.
  bool can_group() const {
    return !request_.bias && !request_.relative && !(*options_).method && !layer_.q_norm &&
           layer_.dtype() == computed_type(layer_.dtype());
  }
  void begin_group(int64_t first) {
    const int64_t count = std::min(group_, layer_.num_kv_heads - first);
    const int64_t share = layer_.num_heads / layer_.num_kv_heads;
    request_.heads = {first * share, count * share};
    const auto part_of = [&](const ProjectionPart& all, const HeadRange& heads) -> ProjectionPart {
      return {all.begin + heads.first * layer_.head_dim,
              all.begin + (heads.first + heads.count) * layer_.head_dim};
    };
    parts_[0].part = part_of(query_part(layer_), request_.heads);
    parts_[1].part = part_of(key_part(layer_), {first, count});
    parts_[2].part = part_of(value_part(layer_), {first, count});
  }

  // The gradients of the projections and of learned tensors.
  void attention_gradients() {
    const HeadViews heads(layer_, state_);
    const bool wanted = request_.query || request_.key || request_.value || request_.bias ||
                        request_.score_parameters || request_.normalizer_parameters ||
                        request_.relative;
    if (!wanted) return;
    if (part_count_ == 1)
      take_joint_gradient();
    else
      take_gradients();
    if (layer_.q_norm) take_normed_gradients();
    const Arena::Frame frame(run_.scratch);
    const TensorView d_attention = attention_gradient();
    const BackwardInputs inputs{
        .state = {heads.output, state_.statistic},
        .d_output =
            split_heads(d_attention, d_attention.shape[d_attention.rank - 1] / layer_.head_dim)};
    if (run_.counts())
      return run_.scratch.need(backward_workspace_bytes(heads.query, heads.key, heads.value,
                                                        *options_, request_, run_.context));
    scaled_dot_product_attention_backward(heads.query, heads.key, heads.value, *options_, inputs,
                                          request_, outputs_, run_.scratch.rest(), run_.context);
  }

  // Query, key and value are columns of one tensor, so that one product makes what three would.
  void take_joint_gradient() {
    if (!request_.query) return;  // then no part is needed
    const int64_t inner = layer_.inner(), kv = layer_.kv();
    const TensorView& all = parts_[0].gradient = take_like(state_.projections, inner + 2 * kv);
    outputs_.d_query = split_heads(all.slice(-1, 0, inner), layer_.num_heads);
    outputs_.d_key = split_heads(all.slice(-1, inner, inner + kv), layer_.num_kv_heads);
    outputs_.d_value = split_heads(all.slice(-1, inner + kv, inner + 2 * kv), layer_.num_kv_heads);
  }
  void take_gradients() {
    const auto take = [&](bool needed, ProjectedPart& part, const TensorView& like,
                          TensorView& target) {
      if (!needed) return;
      part.gradient = take_like(like, part.part.end - part.part.begin);
      target = split_heads(part.gradient, (part.part.end - part.part.begin) / layer_.head_dim);
    };
    const TensorView& keys = state_.key_value.defined() ? state_.key_value : state_.projections;
    take(request_.query, parts_[0], state_.projections, outputs_.d_query);
    take(request_.key, parts_[1], keys, outputs_.d_key);
    take(request_.value, parts_[2], keys, outputs_.d_value);
  }

  // With norms attention writes the gradients of normalised rows; those of projections follow.
  void take_normed_gradients() {
    const auto take = [&](const TensorView& like, TensorView& normed, TensorView& target) {
      if (!target.defined()) return;
      normed = run_.scratch.take(gradient_type(layer_), like.dims());
      target = normed.transposed(-3, -2);
    };
    take(state_.normed_query, d_normed_query_, outputs_.d_query);
    take(state_.normed_key, d_normed_key_, outputs_.d_key);
  }
  void norm_gradients() {
    const bool joint = part_count_ == 1;
    if (d_normed_query_.defined())
      head_norm_gradient({.norm = *layer_.q_norm,
                          .state = state_.q_norm,
                          .rows = query_rows(layer_, state_.projections, joint),
                          .d_normed = d_normed_query_,
                          .d_rows = query_rows(layer_, parts_[0].gradient, joint)},
                         run_);
    if (d_normed_key_.defined())
      head_norm_gradient(
          {.norm = *layer_.k_norm,
           .state = state_.k_norm,
           .rows = key_rows(layer_, joint ? state_.projections : state_.key_value, joint),
           .d_normed = d_normed_key_,
           .d_rows = key_rows(layer_, parts_[joint ? 0 : 1].gradient, joint)},
          run_);
  }

  // [..., length, columns] of the gradients' type, with the leading dimensions and length of
  // `like`.
  TensorView take_like(const TensorView& like, int64_t columns) const {
    int64_t lengths[kMaxRank];
    std::copy_n(like.shape, like.rank, lengths);
    lengths[like.rank - 1] = columns;
    return run_.scratch.take(gradient_type(layer_), Shape(lengths, static_cast<size_t>(like.rank)));
  }

  // d_attention [..., length, heads head_dim].
  TensorView attention_gradient() const {
    const TensorView weight = layer_.out_proj.weight.value.view();
    if (!grouped()) {
      const TensorView all = memory_of_d_attention();
      products_.input_gradient(as_matrix(d_y_), weight, as_matrix(all), false);
      return all;
    }
    const ProjectionPart& part = parts_[0].part;
    const TensorView some = take_like(state_.attention, part.end - part.begin);
    products_.input_gradient(as_matrix(d_y_), weight.slice(-1, part.begin, part.end),
                             as_matrix(some), false);
    return some;
  }
  // The memory of d_x serves where it fits: it is written when d_attention is no longer needed.
  TensorView memory_of_d_attention() const {
    if (d_x_.defined() && !add_ && layer_.inner() == layer_.embed_dim && d_x_.contiguous())
      return d_x_;
    return run_.scratch.take(layer_.dtype(), state_.attention.dims());
  }

  void weight_gradients(const ProjectedPart& p) {
    Parameter& weight = weight_of(layer_, p.part);
    TensorView d_weight, d_bias;
    if (weight.learns()) d_weight = weight_rows(layer_, weight.gradient.view(), p.part);
    if (layer_.in_proj_bias.learns())
      d_bias = layer_.in_proj_bias.gradient.view().slice(0, p.part.begin, p.part.end);
    if (d_weight.defined() || d_bias.defined())
      for_each_matrix(p, [&](const KeyMatrices& m, int64_t i) {
        products_.weight_gradient(m.of_keys(p.gradient, i), m.of_input(*p.input, i), d_weight,
                                  d_bias);
      });
    if (!p.appended || !p.appended->learns()) return;
    const TensorView rows = KeyMatrices(p.gradient, p.appended_rows).appended(p.gradient);
    TensorView sums = p.appended->gradient.view();  // [1, 1, kv]
    sums.rank = 1, sums.shape[0] = layer_.kv(), sums.strides[0] = 1;
    const int64_t begin = first_row(layer_, p.part);
    products_.weight_gradient(rows, rows, {},
                              sums.slice(0, p.part.begin - begin, p.part.end - begin));
  }

  template <class Visit>
  void for_each_matrix(const ProjectedPart& p, const Visit& visit) const {
    const KeyMatrices matrices(p.gradient, p.appended_rows);
    for (int64_t i = 0; i < matrices.count; ++i) {
      visit(matrices, i);
      if (run_.counts()) return;  // all are of one size
    }
  }

  void input_gradients() {
    for (int i = 0; i < part_count_; ++i) {
      bool first = true;  // that writes into this tensor
      for (int j = 0; j < i; ++j) first &= parts_[j].d_input != parts_[i].d_input;
      if (first && parts_[i].d_input->defined()) input_gradients(*parts_[i].d_input);
    }
  }

  // Writes or adds the gradients of all parts that are made of this input. A sum of several in 16
  // bits is rounded once.
  void input_gradients(const TensorView& target) {
    int terms = 0;
    for (const ProjectedPart& p : parts()) terms += p.d_input == &target;
    const Arena::Frame frame(run_.scratch);
    const bool rounds = terms > 1 && target.dtype != computed_type(layer_.dtype());
    const TensorView to =
        rounds ? run_.scratch.take(computed_type(layer_.dtype()), target.dims()) : target;
    bool adds = add_ && !rounds;
    for (const ProjectedPart& p : parts()) {
      if (p.d_input != &target) continue;
      const TensorView weight = weight_rows(layer_, weight_of(layer_, p.part).value.view(), p.part);
      for_each_matrix(p, [&](const KeyMatrices& m, int64_t i) {
        products_.input_gradient(m.of_keys(p.gradient, i), weight, m.of_input(to, i), adds);
      });
      adds = true;
    }
    if (rounds && !run_.counts()) store_sums(to, target, add_, run_.context);
  }

  MultiHeadAttention& layer_;
  const TensorView& d_y_;
  const MultiHeadAttention::State& state_;
  const TensorView& d_x_;
  const Run& run_;
  bool add_;
  MultiHeadOptions options_;
  Products products_;
  BackwardRequest request_;
  GradientOutputs outputs_;
  TensorView d_normed_query_, d_normed_key_;  // with norms: of the normalised rows
  ProjectedPart parts_[3];
  int part_count_ = 3;  // 1: the first holds all three
  int64_t group_;       // key heads that are computed at once
};

// The gradients of all heads are computed at once if they take at most kBytesOfAll. A group of
// heads has gradients of kBytesOfGroup at most, that of its attention included, or one key head.
constexpr double kBytesOfAll = 64 << 20, kBytesOfGroup = 32 << 20;

// Groups are for sequences of so many keys per feature. Without masks, attention then has 2.5 times
// as many multiplications as the products: 5 keys x features per row against 8 features^2, with as
// many key heads as query heads. Narrower products cost little beside that.
constexpr int64_t kKeysPerFeature = 4;

int64_t key_heads_at_once(const MultiHeadAttention& layer, const MultiHeadAttention::State& state) {
  const TensorView& keys = state.key_value.defined() ? state.key_value : state.projections;
  const auto bytes_of_head = [&](const TensorView& rows) {
    return static_cast<double>(as_matrix(rows).shape[0] * layer.head_dim * size_of(layer.dtype()));
  };
  const double queries =
      bytes_of_head(state.projections) * static_cast<double>(layer.num_heads / layer.num_kv_heads);
  const double pairs = 2 * bytes_of_head(keys);
  const bool small = (queries + pairs) * static_cast<double>(layer.num_kv_heads) <= kBytesOfAll;
  if (small || keys.shape[keys.rank - 2] < kKeysPerFeature * layer.embed_dim)
    return layer.num_kv_heads;
  return std::max<int64_t>(1, static_cast<int64_t>(kBytesOfGroup / (2 * queries + pairs)));
}

}  // namespace

void backward_by_groups(MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
                        const MultiHeadAttention::State& state, const TensorView& d_x,
                        const Run& run, bool add, const MultiHeadCall& call,
                        const MultiHeadGradients& gradients, int64_t key_heads) {
  const Arena::Frame frame(run.scratch);
  MultiHeadBackward(layer, x, d_y, state, d_x, run, add, call, gradients, key_heads)();
}

void backward(MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
              const MultiHeadAttention::State& state, const TensorView& d_x, const Run& run,
              bool add, const MultiHeadCall& call, const MultiHeadGradients& gradients) {
  if (!run.counts()) check_backward(layer, x, d_y, state, d_x, call, gradients);
  backward_by_groups(layer, x, d_y, state, d_x, run, add, call, gradients,
                     key_heads_at_once(layer, state));
}

}  // namespace rapt::nn

// Makes a MultiHeadAttention: sizes, parameters, and the objects of its texts.
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "nn/attention/learned_tensors.h"
#include "rapt/rotary.h"

namespace rapt::nn {
namespace {

[[noreturn]] void fail_spec(const std::string& message) {
  throw Error(ErrorCode::argument, "multi-head attention: " + message);
}

// The words `learned`, `shared`, `learned[32]` and `shared[32]` of a text. The view that stands for
// one until its parameter is known has an address of its own.
struct LearnedWord {
  bool per_head = true;
  int64_t length = 0;  // in brackets; 0: none
};

class LearnedWords {
 public:
  // A source that reads these words, and takes others from `tensors`.
  TensorSource source(const TensorSource& tensors) {
    return [this, &tensors](std::string_view name) -> TensorView {
      LearnedWord word;
      if (!parse(name, word)) {
        if (tensors) return tensors(name);
        fail_spec("there is no tensor \"" + std::string(name) +
                  "\"; expected learned, shared, or a name that spec.tensors reads");
      }
      if (count_ == kMost) fail_spec("too many learned tensors in one text");
      words_[count_] = word;
      return TensorView(&addresses_[count_++], DType::f32, Shape(), true);
    };
  }

  // The word for which a tensor of the variant stands; null: none.
  const LearnedWord* word_of(const TensorView& view) const {
    for (int i = 0; i < count_; ++i)
      if (view.defined() && view.data == &addresses_[i]) return &words_[i];
    return nullptr;
  }

 private:
  static constexpr int kMost = 16;

  static bool parse(std::string_view text, LearnedWord& word) {
    const auto bracket = text.find('[');
    const std::string_view name = text.substr(0, bracket);
    if (name != "learned" && name != "shared") return false;
    word.per_head = name == "learned";
    if (bracket == text.npos) return true;
    const char* const end = text.data() + text.size() - 1;
    const auto number = std::from_chars(text.data() + bracket + 1, end, word.length);
    if (number.ec != std::errc() || number.ptr != end || *end != ']' || word.length < 1)
      fail_spec("\"" + std::string(text) +
                "\"; expected a length in the brackets: " + std::string(name) + "[32]");
    return true;
  }

  LearnedWord words_[kMost];
  float addresses_[kMost] = {};
  int count_ = 0;
};

void set_number(const TensorView& view, int64_t i, double number) {
  if (view.dtype == DType::f64)
    static_cast<double*>(view.data)[i] = number;
  else
    static_cast<float*>(view.data)[i] = static_cast<float>(number);
}

// The first values of distance tables and query biases are small beside the scores of projected
// rows.
const Init kTableInit = {.rule = Init::Rule::normal, .scale = 0.02};

class LayerTexts {
 public:
  LayerTexts(MultiHeadAttention& layer, const MultiHeadAttentionSpec& spec)
      : layer_(layer), spec_(spec) {}

  void take_all() {
    AttentionOptions& options = layer_.options;
    if (!spec_.mask.empty()) {
      std::shared_ptr<const Mask> mask = make_mask(spec_.mask, spec_.tensors);
      options.masks = {mask.get()};
      layer_.owned.push_back(std::move(mask));
    }
    std::vector<ScoreRef> scores;
    for (const std::string& text : spec_.scores) {
      LearnedWords words;
      const MadeScore made = make_score(text, words.source(spec_.tensors));
      learn(*made.ref.declaration, made.object.get(), words,
            "scores." + std::to_string(scores.size()) + ".");
      scores.push_back(made);
      layer_.owned.push_back(made.object);
    }
    options.scores = scores;
    if (!spec_.normalizer.empty()) take_normalizer(spec_.normalizer);
    if (!spec_.rotary.empty()) {
      auto rotary = std::make_shared<Rotary>(make_rotary(spec_.rotary, spec_.tensors));
      options.rotary.embedding = rotary.get();
      layer_.owned.push_back(std::move(rotary));
    }
    if (!spec_.relative.empty()) take_relative();
    if (spec_.add_zero_attn) take_zero_attention();
  }

 private:
  void take_normalizer(const std::string& text) {
    LearnedWords words;
    const MadeNormalizer made = make_normalizer(text, words.source(spec_.tensors));
    learn(*made.ref.declaration, made.object.get(), words, "normalizer.");
    layer_.options.normalizer = made;
    layer_.owned.push_back(made.object);
  }

  void take_relative() {
    LearnedWords words;
    RelativePositions& relative = layer_.options.relative;
    relative = make_relative(spec_.relative, words.source(spec_.tensors));
    for (const RelativeGradient& r : kRelativeGradients) {
      TensorView& tensor = relative.*r.tensor;
      const LearnedWord* const word = words.word_of(tensor);
      if (!word) continue;
      const bool bias = r.tensor == &RelativePositions::content_bias ||
                        r.tensor == &RelativePositions::position_bias;
      check_length(r.name, *word, !bias);
      const int64_t heads = word->per_head ? layer_.num_heads : 1, dims = layer_.head_dim;
      tensor = add("relative." + std::string(r.name),
                   bias ? make_parameter(layer_.dtype(), {heads, dims}, kTableInit)
                        : make_parameter(layer_.dtype(), {heads, word->length, dims}, kTableInit));
    }
  }

  void take_zero_attention() {
    if (!spec_.normalizer.empty() || !spec_.scores.empty())
      fail_spec(
          "add_zero_attn beside a normaliser or scores: it is softmax_plus_one, and zeros would "
          "change under scores; leave it out");
    take_normalizer("softmax_plus_one");
  }

  // Makes parameters of the words that stand for tensors of a variant.
  void learn(const Declaration& declaration, void* object, const LearnedWords& words,
             const std::string& prefix) {
    const DType dtype = layer_.dtype() == DType::f64 ? DType::f64 : DType::f32;
    for (const rapt::Parameter& parameter : declaration.parameters) {
      if (parameter.type != ParameterType::tensor) continue;
      const LearnedWord* const word = words.word_of(parameter.get(object).tensor);
      if (!word) continue;
      if (parameter.own_rank < 0 || parameter.own_rank > 1)
        fail_spec(std::string(declaration.name) + ": " + parameter.name + " cannot be learned");
      check_length(parameter.name, *word, parameter.own_rank == 1);
      const int64_t heads = word->per_head ? layer_.num_heads : 1;
      Argument argument;
      argument.type = ParameterType::tensor;
      argument.tensor =
          add(prefix + parameter.name,
              parameter.own_rank == 1 ? make_parameter(dtype, {heads, word->length}, Init::keep())
                                      : make_parameter(dtype, {heads}, Init::keep()));
      fill(declaration, parameter, argument.tensor);
      parameter.set(object, argument);
    }
  }

  static void check_length(const char* name, const LearnedWord& word, bool has_rows) {
    if (has_rows != (word.length > 0))
      fail_spec(std::string(name) + (has_rows ? " has several numbers per head; expected their "
                                                "count, as in learned[32]"
                                              : " has no length; expected learned or shared"));
  }

  static void fill(const Declaration& declaration, const rapt::Parameter& parameter,
                   const TensorView& view) {
    const bool slopes = &declaration == &Alibi::kDeclaration;
    const int64_t count = view.count();
    for (int64_t i = 0; i < count; ++i)
      set_number(view, i, slopes ? alibi_slope(i, count) : parameter.neutral);
  }

  // A view of the parameter's value, which stays valid when the list of parameters grows.
  TensorView add(std::string name, Parameter parameter) {
    layer_.learned.push_back({std::move(name), std::move(parameter)});
    return layer_.learned.back().parameter.value.view();
  }

  MultiHeadAttention& layer_;
  const MultiHeadAttentionSpec& spec_;
};

void take_sizes(MultiHeadAttention& layer, int64_t embed_dim, int64_t num_heads,
                const MultiHeadAttentionSpec& spec) {
  const auto check = [](const char* name, int64_t size, int64_t least) {
    if (size < least)
      fail_spec(std::string(name) + " is " + std::to_string(size) + "; expected at least " +
                std::to_string(least));
  };
  check("embed_dim", embed_dim, 1), check("num_heads", num_heads, 1);
  check("num_kv_heads", spec.num_kv_heads, 0), check("head_dim", spec.head_dim, 0);
  check("kdim", spec.kdim, 0), check("vdim", spec.vdim, 0);
  if (spec.head_dim == 0 && embed_dim % num_heads != 0)
    fail_spec("embed_dim " + std::to_string(embed_dim) + " is not divisible by num_heads " +
              std::to_string(num_heads) + "; expected a multiple of it, or a head_dim");
  layer.embed_dim = embed_dim, layer.num_heads = num_heads;
  layer.head_dim = spec.head_dim > 0 ? spec.head_dim : embed_dim / num_heads;
  layer.num_kv_heads = spec.num_kv_heads > 0 ? spec.num_kv_heads : num_heads;
  layer.kdim = spec.kdim > 0 ? spec.kdim : embed_dim;
  layer.vdim = spec.vdim > 0 ? spec.vdim : embed_dim;
  if (num_heads % layer.num_kv_heads != 0)
    fail_spec("num_heads " + std::to_string(num_heads) + " is not divisible by num_kv_heads " +
              std::to_string(layer.num_kv_heads) + "; expected a divisor of it");
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    fail_spec("dropout is " + std::to_string(spec.dropout) + "; expected at least 0, below 1");
  layer.dropout = spec.dropout, layer.dropout_stream = spec.dropout_stream;
}

}  // namespace

MultiHeadAttention make_multi_head_attention(int64_t embed_dim, int64_t num_heads,
                                             const MultiHeadAttentionSpec& spec, DType dtype) {
  MultiHeadAttention layer;
  take_sizes(layer, embed_dim, num_heads, spec);
  const int64_t inner = layer.inner(), kv = layer.kv();
  if (layer.kdim == embed_dim && layer.vdim == embed_dim) {
    layer.in_proj_weight = make_parameter(dtype, {inner + 2 * kv, embed_dim},
                                          Init::xavier_uniform(embed_dim, inner + 2 * kv));
  } else {
    const auto projection = [&](int64_t out, int64_t in) {
      return make_parameter(dtype, {out, in}, Init::xavier_uniform(in, out));
    };
    layer.q_proj_weight = projection(inner, embed_dim);
    layer.k_proj_weight = projection(kv, layer.kdim);
    layer.v_proj_weight = projection(kv, layer.vdim);
  }
  if (spec.bias) layer.in_proj_bias = make_parameter(dtype, {inner + 2 * kv});
  if (spec.add_bias_kv) {
    // PyTorch's xavier_normal_ of [1, 1, kv].
    const Init init = Init::normal(1 / std::sqrt(static_cast<double>(kv)));
    layer.bias_k = make_parameter(dtype, {1, 1, kv}, init);
    layer.bias_v = make_parameter(dtype, {1, 1, kv}, init);
  }
  layer.out_proj = make_linear(inner, embed_dim, spec.bias, dtype);
  layer.out_proj.bias.init = Init::keep();  // zeros, as in PyTorch
  if (spec.qk_norm) {
    if (spec.add_bias_kv)
      fail_spec("qk_norm beside add_bias_kv, whose key has no norm; leave one out");
    layer.q_norm = make_rms_norm(layer.head_dim, {.epsilon = spec.qk_norm_epsilon}, dtype);
    layer.k_norm = make_rms_norm(layer.head_dim, {.epsilon = spec.qk_norm_epsilon}, dtype);
  }
  LayerTexts(layer, spec).take_all();
  return layer;
}

}  // namespace rapt::nn

// Makes a problem at a point of the grid of axes.h. Everything that the point leaves open is drawn,
// so small that library and reference together take less than a millisecond, or as the work of
// several threads.
#include <algorithm>
#include <cmath>

#include "check/draw/drawn_element.h"
#include "check/draw/drawn_mask.h"
#include "check/draw/drawn_method.h"
#include "check/draw/law_grid.h"
#include "check/draw/shared_work.h"
#include "check/draw/sizes.h"
#include "check/problem/parse_masks.h"
#include "check/problem/parse_method.h"
#include "check/problem/parse_normalizer.h"
#include "check/problem/parse_scores.h"
#include "rapt/catalogue.h"

namespace check {
namespace {

class GridProblem {
 public:
  GridProblem(const GridPoint& point, Random& random, Work work)
      : point_(point), random_(random), work_(work) {}

  Descriptor draw() {
    dtype();
    heads();
    sizes();
    packed();
    cache();
    masks();
    bias();
    layout();
    captures();
    scores();
    d_.bias_first = at(kBiasOrderAxis) == "before";
    normalizer();
    scale();
    if (at(kPrecisionAxis) == "fma") d_.precision = rapt::Precision::fma;
    if (at(kPrecisionAxis) == "fast") d_.precision = rapt::Precision::fast;
    d_.invariant = at(kInvariantAxis) == "yes";
    d_.magnitude = random_.pick({1.0, 1.0, 0.01, 4.0});
    d_.seed = random_.next() >> 32;
    dropout();
    relative();
    rows();
    inputs();
    method();
    return std::move(d_);
  }

 private:
  std::string_view at(AxisIndex axis) const { return kAxes[axis].values[point_[axis]]; }

  // A variant with one of its examples.
  std::string drawn(std::span<const rapt::Declaration* const> declarations, std::string_view name) {
    const auto found =
        std::ranges::find_if(declarations, [&](const auto* one) { return one->name == name; });
    const auto last = std::max<int64_t>(static_cast<int64_t>((*found)->examples.size()), 1) - 1;
    return example_text(**found, static_cast<size_t>(random_.between(0, last)));
  }

  void normalizer() {
    const std::string text = drawn(rapt::normalizer_declarations(), at(kNormalizerAxis));
    Scanner in(text);
    d_.normalizer = parse_normalizer(in);
  }

  void method() {
    if (at(kMethodAxis) == "none") return;
    const std::string text = drawn_method(random_, at(kMethodAxis));
    Scanner in(text);
    d_.method = parse_method(in);
    fit_method(at(kMethodAxis), d_);
  }

  void dtype() {
    const std::string_view name = at(kDTypeAxis);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      if (name.substr(0, name.find('>')) == rapt::name_of(dtype)) d_.dtype = dtype;
    if (name.find('>') != name.npos) d_.output_dtype = DType::f32;
  }

  void heads() {
    const std::string_view name = at(kHeadsAxis);
    const int64_t some = random_.pick({2, 3, 4});
    if (name == "none") return;
    if (name == "one") set_leading(d_, random_.chance(0.5) ? Dims{1, 1} : Dims{1});
    if (name == "several") set_leading(d_, random_.chance(0.5) ? Dims{2, some} : Dims{some});
    if (name == "grouped") {
      const int64_t kv_heads = random_.pick({2, 3});
      set_leading(d_, {random_.pick({1, 2}), 2 * kv_heads});
      d_.key.leading.back() = d_.value.leading.back() = kv_heads;
    }
    if (name == "one for all") {
      set_leading(d_, {random_.pick({1, 2}), some});
      d_.key.leading.back() = d_.value.leading.back() = 1;
    }
    if (name == "batch shared") {
      set_leading(d_, {random_.pick({2, 3}), some});
      // Broadcasts by a length of 1, or by a missing dimension.
      d_.key.leading = random_.chance(0.5) ? Dims{some} : Dims{1, some};
      if (random_.chance(0.5)) d_.value.leading = d_.key.leading;
    }
    if (name == "query shared") {
      set_leading(d_, {random_.pick({2, 3}), some});
      d_.query.leading = random_.chance(0.5) ? Dims{1, 1} : Dims{d_.leading.front(), 1};
    }
    if (name == "nested") {
      set_leading(d_, {2, random_.pick({1, 2}), 2 * random_.pick({1, 2})});
      if (random_.chance(0.5)) d_.key.leading.back() = d_.value.leading.back() = 2;
    }
  }

  int64_t near(std::initializer_list<int64_t> boundaries) {
    return random_.pick(boundaries) + random_.between(-1, 1);
  }

  void sizes() {
    const std::string_view name = at(kSizesAxis);
    if (work_ == Work::shared) return draw_shared_sizes(name, has_square_causal(), d_, random_);
    d_.head_dim = random_.between(1, 12);
    d_.value_dim = random_.chance(0.6) ? d_.head_dim : random_.between(1, 12);
    d_.q_len = random_.between(1, 12);
    d_.k_len = random_.between(1, 24);
    if (name == "tiny") {
      d_.q_len = random_.between(1, 5);
      d_.k_len = random_.between(1, 5);
      d_.head_dim = d_.value_dim = random_.pick({1, 2, 3, 4, 8});
    } else if (name == "lanes") {
      d_.q_len = near({4, 8, 16, 24, 32});
      d_.k_len = near({4, 8, 16, 32});
    } else if (name == "tiles") {
      d_.q_len = near({16, 32, 48, 64, 96, 128});
      d_.k_len = random_.between(1, 20);
    } else if (name == "blocks") {
      d_.q_len = random_.between(1, 8);
      d_.k_len = near({64, 96, 128, 160, 192, 256});
    } else if (name == "long query") {
      d_.q_len = near({192, 256, 384});
      d_.k_len = random_.between(1, 6);
    } else if (name == "wide") {
      d_.head_dim = near({32, 40, 64, 80, 128});
      d_.value_dim = d_.head_dim;
      d_.q_len = random_.between(1, 6);
      d_.k_len = random_.between(1, 10);
    } else if (name == "narrow value") {
      d_.value_dim = random_.between(1, 3);
      d_.head_dim = random_.between(4, 40);
    } else if (name == "empty") {
      empty();
    } else if (name == "decode") {
      d_.q_len = random_.chance(0.7) ? 1 : random_.between(2, 8);
      d_.k_len = near({64, 128, 192, 256});
      d_.head_dim = near({8, 16, 32, 64});
      d_.value_dim = random_.chance(0.6) ? d_.head_dim : near({8, 16, 32, 64});
    }
    if (at(kInputsAxis).ends_with("keys") && name != "empty" && random_.chance(0.3)) long_rows();
    if (at(kMaskAxis) == "dilated" && name != "empty" && random_.chance(0.05)) long_sides();
    if (has_square_causal())
      d_.q_len = d_.k_len =
          name == "empty" ? std::min(d_.q_len, d_.k_len) : std::max(d_.q_len, d_.k_len);
    // Long or wide problems with many heads would be too much work.
    constexpr double kMostWork = 6e4;
    while (d_.work() > kMostWork && d_.head_dim + d_.value_dim > 4 && name != "wide") {
      d_.head_dim = (d_.head_dim + 1) / 2;
      d_.value_dim = (d_.value_dim + 1) / 2;
    }
  }

  bool has_square_causal() const {
    return at(kMaskAxis) == "causal" && needs_square_causal(at(kMethodAxis));
  }

  // More keys than a list of a sparse normaliser holds (2,048). With scores that differ little,
  // lists overflow, and their rows are collected again.
  void long_rows() {
    d_.q_len = random_.between(1, 2);
    d_.k_len = random_.between(2049, 2400);
    d_.head_dim = random_.between(1, 3);
    d_.value_dim = random_.between(1, 3);
  }

  // Two segments of queries and two chunks of keys in the backward pass, with few pairs.
  void long_sides() {
    if (d_.heads() > 2) return;
    d_.q_len = random_.between(1025, 1100);
    d_.k_len = random_.between(1025, 1100);
    d_.head_dim = random_.between(1, 3);
    d_.value_dim = random_.between(1, 3);
  }

  // Sets a length to 0, except lengths that a capture needs to be at least 1.
  void empty() {
    const std::string_view capture = at(kCaptureAxis);
    const bool needs_keys = capture == "top-k" || at(kCacheAxis) != "none",
               needs_both =
                   capture.starts_with("map") || capture == "weights chosen" || capture == "all";
    switch (random_.between(needs_both ? 2 : needs_keys ? 1 : 0, 2)) {
      case 0:
        d_.k_len = 0;
        break;
      case 1:
        d_.q_len = 0;
        break;
      default:
        d_.value_dim = 0;
    }
  }

  void packed() {
    if (at(kPackedAxis) == "packed") d_.packed = random_.between(1, 5);
  }

  void cache() {
    const std::string_view name = at(kCacheAxis);
    if (name == "none") return;
    CacheSpec& spec = d_.cache.emplace();
    spec.circular = name == "circular" || (name.ends_with("pages") && random_.chance(0.3));
    spec.shared = name == "shared pages";
    if (name.ends_with("pages")) {
      spec.page_keys = std::min(d_.k_len, random_.pick<int64_t>({1, 2, 3, 4, 7, 8, 16, 33}));
      d_.k_len -= d_.k_len % spec.page_keys;
    }
    // More sequences than batches elsewhere.
    if (d_.packed == 0 && at(kHeadsAxis) != "one" && random_.chance(0.3))
      for (Side* side : {&d_.query, &d_.key, &d_.value})
        side->leading.front() = d_.leading.front() = 5;
  }

  // Packed sequences and those in a cache only have masks without tensors.
  MaskSpec any_leaf() { return drawn_leaf(random_, d_, d_.packed == 0 && !d_.cache); }

  MaskSpec compound(MaskSpec::Kind kind, int depth) {
    MaskSpec mask;
    mask.kind = kind;
    const int64_t parts = kind == MaskSpec::negation ? 1 : random_.between(2, 3);
    for (int64_t p = 0; p < parts; ++p) mask.parts.push_back(tree(depth - 1));
    return mask;
  }

  MaskSpec tree(int depth) {
    if (depth <= 0 || random_.chance(0.3)) return any_leaf();
    return compound(random_.pick({MaskSpec::all, MaskSpec::any, MaskSpec::negation}), depth);
  }

  void masks() {
    const std::string_view name = at(kMaskAxis);
    const auto add = [&](MaskSpec mask) { d_.masks.push_back(std::move(mask)); };
    if (name == "and") add(compound(MaskSpec::all, 1));
    if (name == "or") add(compound(MaskSpec::any, 1));
    if (name == "not") add(compound(MaskSpec::negation, 1));
    if (name == "combined")
      add(compound(random_.pick({MaskSpec::all, MaskSpec::any, MaskSpec::negation}), 3));
    const int count = name == "two" ? 2 : name == "three" ? 3 : 0;
    for (int m = 0; m < count; ++m) add(any_leaf());
    if (has_square_causal()) {
      Scanner in("causal");
      return add(parse_masks(in, d_).front());
    }
    const bool with_tensors = name.ends_with(kPerBatch);
    const std::string_view alone = name.substr(0, name.size() - with_tensors * kPerBatch.size());
    for (const rapt::Declaration* mask : leaf_masks())
      if (mask->name == alone) add(drawn_mask(random_, *mask, d_, with_tensors));
  }

  void bias() {
    const std::string_view name = at(kBiasAxis);
    if (name == "none") return;
    d_.has_bias = true;
    d_.bias_dims = {d_.q_len, d_.k_len};
    if (name == "per head")
      d_.bias_dims.insert(d_.bias_dims.begin(), d_.leading.begin(), d_.leading.end());
    if (name == "row") d_.bias_dims[1] = 1;
    if (name == "column") d_.bias_dims[0] = 1;
    if (name == "with -inf") {
      d_.bias_dims = drawn_matrix_dims(random_, d_);
      d_.excluded_by_bias = random_.pick({0.2, 0.9, 1.0});
    }
    if (name == "f32" && d_.dtype != DType::f32) d_.bias_dtype = DType::f32;
  }

  void layout() {
    const std::string_view name = at(kLayoutAxis);
    Side* const sides[] = {&d_.query, &d_.key, &d_.value};
    if (name == "broadcast") {
      // A cache lies as it was written.
      Side& side = *sides[random_.between(0, d_.cache ? 0 : 2)];
      side.repeated =
          static_cast<int>(random_.between(0, static_cast<int64_t>(side.leading.size()) + 1));
      return;
    }
    for (Side* side : {&d_.query, &d_.key, &d_.value, &d_.bias}) {
      if (side == &d_.bias && !d_.has_bias) continue;
      if (name == "mixed") {
        side->layout = static_cast<Layout>(random_.between(0, kLayouts - 1));
      } else {
        const auto* found = std::ranges::find(kLayoutNames, name);
        side->layout = static_cast<Layout>(found - std::begin(kLayoutNames));
      }
    }
  }

  Dims some_heads() {
    Dims heads = random_.permutation(d_.heads());
    heads.resize(static_cast<size_t>(random_.between(1, static_cast<int64_t>(heads.size()))));
    return heads;
  }

  void captures() {
    const std::string_view name = at(kCaptureAxis);
    Captures& wanted = d_.captures;
    const bool all = name == "all";
    // Packed sequences have no captures of weights and maps, and sequences in a cache no maps.
    const bool unpacked = all && d_.packed == 0;
    if (name == "weights" || unpacked) wanted.weights.emplace();
    if (name == "weights of rows") {
      auto& weights = wanted.weights.emplace();
      weights.begin = random_.between(0, d_.q_len);
      weights.end = random_.between(weights.begin, d_.q_len);
      if (weights.begin == 0 && weights.end == d_.q_len) weights.end = -1;
      if (random_.chance(0.3)) weights.heads = some_heads();
    }
    if (name == "weights chosen") {
      auto& weights = wanted.weights.emplace();
      weights.rows = random_.permutation(d_.q_len);
      weights.rows.resize(static_cast<size_t>(random_.between(1, std::min<int64_t>(d_.q_len, 5))));
      if (random_.chance(0.5)) weights.heads = some_heads();
      // Rows and heads may be returned twice.
      if (random_.chance(0.3)) weights.rows.push_back(weights.rows.front());
      if (!weights.heads.empty() && random_.chance(0.2))
        weights.heads.push_back(weights.heads.front());
    }
    if (name.starts_with("map ") || (unpacked && !d_.cache)) {
      auto& map = wanted.map.emplace();
      map.rows = random_.between(1, std::min<int64_t>(d_.q_len, 7));
      map.columns = random_.between(1, std::min<int64_t>(d_.k_len, 7));
      const std::string_view pooling = all ? "mean" : name.substr(4);
      const auto* found = std::ranges::find(kPoolingNames, pooling);
      map.pooling = static_cast<Pooling>(found - std::begin(kPoolingNames));
      if (random_.chance(0.3)) map.heads = some_heads();
    }
    if (name == "top-k" || all) wanted.top_k = random_.between(1, std::min<int64_t>(d_.k_len, 20));
    wanted.entropy = name == "entropy" || all;
    wanted.received = (name == "received" || all) && !(d_.cache && d_.packed > 0);
  }

  void score(std::string_view name) {
    const std::string text = drawn(rapt::score_declarations(), name);
    Scanner in(text);
    ScoreSpec spec = parse_scores(in, d_).front();
    const Dims dims = head_dims();
    const int64_t entries = random_.pick({4, 8, 32});
    for (LearnedParameter& parameter : spec.learned) {
      if (parameter.own_rank < 0) continue;
      parameter.dims = dims;
      if (parameter.own_rank == 1) parameter.dims.push_back(entries);
    }
    d_.scores.push_back(std::move(spec));
  }

  // Dims of a number per head: the last leading dimensions, some of them shared.
  Dims head_dims() {
    Dims dims = d_.leading;
    dims.erase(dims.begin(), dims.begin() + random_.between(0, static_cast<int64_t>(dims.size())));
    for (int64_t& length : dims)
      if (random_.chance(0.15)) length = 1;
    return dims;
  }

  void scores() {
    const std::string_view name = at(kScoreAxis);
    if (name == "two") {
      const auto all = rapt::score_declarations();
      score(random_.pick(all)->name);
      score(random_.pick(all)->name);
    } else if (name != "none") {
      score(name);
    }
  }

  void scale() {
    const std::string_view name = at(kScaleAxis);
    if (name == "0") d_.scale = 0;
    if (name == "negative") d_.scale = -random_.pick({0.1, 0.3, 1.0});
    if (name == "large") d_.scale = random_.pick({3.0, 7.0, 20.0});
  }

  void dropout() {
    if (at(kDropoutAxis) == "none") return;
    d_.dropout = random_.pick({0.01, 0.1, 0.5, 0.9});
    d_.dropout_seed = random_.next();
  }

  void relative() {
    const std::string_view name = at(kRelativeAxis);
    if (name == "none") return;
    RelativeSpec& spec = d_.relative;
    const auto take = [&](RelativeSpec::Part part, double probability) {
      spec[part].there = random_.chance(probability);
      if (spec[part].there) spec[part].leading = head_dims();
    };
    const bool xl = name == "transformer-xl", deberta = name == "deberta", log = name == "log";
    take(RelativeSpec::keys, xl ? 1 : deberta ? 0.9 : log ? 0.5 : 0.8);
    take(RelativeSpec::queries, xl ? 0 : deberta ? 1 : log ? 0.5 : 0);
    take(RelativeSpec::values, xl || deberta ? 0.1 : log ? 0.5 : 0.8);
    take(RelativeSpec::content, xl ? 0.9 : log ? 0.3 : 0);
    take(RelativeSpec::position, !spec[RelativeSpec::keys].there ? 0 : xl ? 0.9 : log ? 0.3 : 0);
    const auto there = [&](RelativeSpec::Part part) { return spec[part].there; };
    if (!there(RelativeSpec::keys) && !there(RelativeSpec::queries) &&
        !there(RelativeSpec::values)) {
      // Without tables, biases have no distances.
      if (there(RelativeSpec::content)) return;
      spec[RelativeSpec::values].there = true;
      spec[RelativeSpec::values].leading = head_dims();
    }
    spec.distances = random_.pick({1, 2, 3, 5, 8, 17, 33, 64});
    if (xl) spec.distances = std::max<int64_t>(d_.k_len, 1);
    if (xl || random_.chance(0.4)) {
      spec.center = xl ? spec.distances - 1 : random_.between(0, spec.distances - 1);
      if (spec.center == spec.distances / 2) spec.center.reset();
    }
    if (random_.chance(xl ? 0.8 : 0.3)) spec.anchor = rapt::Anchor::bottom_right;
    if (!log) return;
    // A prime ratio, so that rounding never decides where a row begins.
    spec.exact = random_.pick({2, 3, 4, 8});
    spec.max_distance = random_.pick({31, 61, 127}) + 1;
  }

  CountedRows counted() {
    return {random_.pick({0, 0, 1, 3, -5, 61, 4096}), random_.pick({1, 1, 1, 2, -1, 0, 65})};
  }

  void rows() {
    const std::string_view name = at(kRowsAxis);
    const bool both = name == "both";
    // Some rows are shorter than the least length, and some longer.
    if (both || name == "cosine")
      d_.rows.cosine = random_.chance(0.5)
                           ? RowSpec::kEpsilon
                           : 1.1 * d_.magnitude * std::sqrt(static_cast<double>(d_.head_dim));
    if (!both && name != "rotary") return;
    RotarySpec& rotary = d_.rows.rotary.emplace();
    d_.head_dim = std::max<int64_t>(d_.head_dim, 2);
    rotary.dims = 2 * random_.between(1, d_.head_dim / 2);
    if (rotary.dims == d_.head_dim || (d_.head_dim % 2 == 0 && random_.chance(0.4)))
      rotary.dims = 0;
    rotary.interleaved = random_.chance(0.5);
    rotary.theta = random_.pick({10000.0, 10000.0, 100.0, 500000.0});
    rotary.magnitude = random_.pick({1.0, 1.0, 1.0, 1.2, 0.25});
    if (d_.cache) {  // queries are the last positions, and the keys are already rotated
      rotary.turns_key = false;
      return;
    }
    rotary.query = counted();
    rotary.turns_key = random_.chance(0.85);
    if (rotary.turns_key) rotary.key = counted();
  }

  void inputs() {
    const std::string_view name = at(kInputsAxis);
    if (name == "equal keys") d_.keys = Keys::equal;
    if (name == "rising keys") d_.keys = Keys::rising;
    if (name == "drawn" || name.ends_with("keys")) return;
    std::vector<InputTensor> tensors;
    for (const InputTensor tensor :
         {InputTensor::query, InputTensor::key, InputTensor::value, InputTensor::bias})
      if (has_elements(d_, tensor)) tensors.push_back(tensor);
    if (tensors.empty()) return;
    for (int64_t left = random_.pick({1, 1, 2, 3}); left > 0; --left)
      d_.elements.push_back(drawn_element(d_, random_.pick(tensors), name, random_));
  }

  const GridPoint& point_;
  Random& random_;
  const Work work_;
  Descriptor d_;
};

}  // namespace

Descriptor descriptor_at(const GridPoint& point, Random& random, Work work) {
  return GridProblem(point, random, work).draw();
}

}  // namespace check

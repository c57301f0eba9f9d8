#include "laws/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <unordered_set>

#include "laws/sanitizers.h"

namespace laws {
namespace {

std::unordered_set<std::string>& seen() {
  static std::unordered_set<std::string> descriptors;
  return descriptors;
}

// Prints seed and count around the tests of every executable that draws problems.
class PrintCount : public testing::Environment {
  void SetUp() override {
    std::printf("seed: %llu\n", static_cast<unsigned long long>(base_seed()));
  }
  void TearDown() override { std::printf("distinct problems: %zu\n", distinct_problems()); }
};
[[maybe_unused]] const testing::Environment* const kPrintCount =
    testing::AddGlobalTestEnvironment(new PrintCount);

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

const char* anchor_name(rapt::Anchor anchor) {
  return anchor == rapt::Anchor::top_left ? "tl" : "br";
}

std::string side_text(const char* name, const Side& side) {
  std::string text = std::string(" ") + name + to_string(side.leading);
  if (side.layout != Layout::dense) text += std::string(":") + name_of(side.layout);
  if (side.repeated >= 0) text += ":repeated" + std::to_string(side.repeated);
  return text;
}

Tensor random_values(Random& random, const Problem& p, const Side& side, int64_t rows,
                     int64_t columns) {
  Dims dims = side.leading;
  dims.push_back(rows);
  dims.push_back(columns);
  Tensor values = random_normal(random, p.dtype, dims, p.magnitude);
  if (side.repeated < 0 || dims[static_cast<size_t>(side.repeated)] == 0) return values;
  const Dims first(static_cast<size_t>(dims[static_cast<size_t>(side.repeated)]), 0);
  return taken(values, side.repeated, first);
}

}  // namespace

std::string MaskSpec::descriptor() const {
  switch (kind) {
    case causal:
      return std::string("causal(") + anchor_name(anchor) + "," + std::to_string(offset) + ")";
    case window:
      return "window(" + std::to_string(left) + "," + std::to_string(right) + "," +
             anchor_name(anchor) + ")";
    case lengths:
      return "lengths" + to_string(dims);
    default:
      return "boolean" + to_string(dims) + "(" + number(density) + ")";
  }
}

bool MaskSpec::allowed(std::span<const int64_t> leading, const Dims& leading_dims, int64_t q_len,
                       int64_t k_len, int64_t i, int64_t j) const {
  // 128 bits, so that offsets near the ends of int64 need no care.
  using Wide = __int128;
  const Wide here = Wide{i} + (anchor == rapt::Anchor::bottom_right ? k_len - q_len : 0);
  switch (kind) {
    case causal:
      return j <= here + offset;
    case window:
      return (left < 0 || j >= here - left) && (right < 0 || j <= here + right);
    case lengths: {
      Dims index(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) index[d] = dims[d] == 1 ? 0 : leading[d];
      return static_cast<double>(j) < get(values, index);
    }
    default: {
      Dims full(leading.begin(), leading.end());
      full.push_back(i);
      full.push_back(j);
      Dims index(dims.size());
      for (size_t d = 0; d < dims.size(); ++d)
        index[d] = dims[d] == 1 ? 0 : full[leading_dims.size() + 2 - dims.size() + d];
      return get(values, index) != 0;
    }
  }
}

std::unique_ptr<rapt::Mask> MaskSpec::make() const {
  switch (kind) {
    case causal:
      return std::make_unique<rapt::Causal>(anchor, offset);
    case window:
      return std::make_unique<rapt::Window>(left, right, anchor);
    case lengths:
      return std::make_unique<rapt::Lengths>(values);
    default:
      return std::make_unique<rapt::Boolean>(values);
  }
}

std::string Problem::descriptor() const {
  std::string text = std::string(rapt::name_of(dtype)) + " out" + to_string(leading) +
                     side_text("q", query) + side_text("k", key) + side_text("v", value) +
                     " q_len=" + std::to_string(q_len) + " k_len=" + std::to_string(k_len) +
                     " d=" + std::to_string(head_dim) + " dv=" + std::to_string(value_dim);
  for (const MaskSpec& mask : masks) text.append(" ").append(mask.descriptor());
  if (has_bias)
    text += " bias" + to_string(bias_dims) + ":" + name_of(bias.layout) + "(-inf " +
            number(excluded_by_bias) + ")";
  if (scale) text += " scale=" + number(*scale);
  return text + " magnitude=" + number(magnitude) + " seed=" + std::to_string(seed);
}

double Problem::work() const {
  double heads = 1;
  for (const int64_t length : leading) heads *= static_cast<double>(length);
  return heads * static_cast<double>(q_len) * static_cast<double>(k_len) *
         static_cast<double>(head_dim + value_dim + 8);
}

Case::Case(Problem drawn) : problem(std::move(drawn)) {
  Problem& p = problem;
  Random random(p.seed);
  query = random_values(random, p, p.query, p.q_len, p.head_dim);
  key = random_values(random, p, p.key, p.k_len, p.head_dim);
  value = random_values(random, p, p.value, p.k_len, p.value_dim);
  const auto lay_out = [](const Tensor& values, const Side& side) {
    Strided strided(values, side.layout);
    return strided;
  };
  strided_query = lay_out(query, p.query);
  strided_key = lay_out(key, p.key);
  strided_value = lay_out(value, p.value);
  if (p.has_bias) {
    bias = random_normal(random, p.dtype, p.bias_dims);
    for_each_index(p.bias_dims, [&](auto index) {
      if (random.chance(p.excluded_by_bias))
        set(bias, index, -std::numeric_limits<double>::infinity());
    });
    strided_bias = Strided(bias, p.bias.layout);
    options.bias = bias;
  }
  for (MaskSpec& mask : p.masks) {
    if (mask.kind == MaskSpec::lengths) {
      mask_values.emplace_back(DType::i64, mask.dims);
      mask.values = mask_values.back();
      for_each_index(mask.dims, [&](auto index) {
        set(mask.values, index, static_cast<double>(random.between(0, p.k_len)));
      });
    } else if (mask.kind == MaskSpec::boolean) {
      mask_values.emplace_back(DType::boolean, mask.dims);
      mask.values = mask_values.back();
      for_each_index(mask.dims, [&](auto index) {
        set(mask.values, index, random.chance(mask.density) ? 1 : 0);
      });
      // Some rows see no key.
      if (mask.dims.size() >= 2 && mask.dims[mask.dims.size() - 2] > 2)
        for_each_index(mask.dims, [&](auto index) {
          if (index[index.size() - 2] == 2) set(mask.values, index, 0);
        });
    }
    masks.push_back(mask.make());
    mask_pointers.push_back(masks.back().get());
  }
  options.masks = mask_pointers;
  options.scale = p.scale;
  seen().insert(p.descriptor());
}

bool Case::allowed(std::span<const int64_t> leading, int64_t i, int64_t j) const {
  return std::ranges::all_of(problem.masks, [&](const MaskSpec& mask) {
    return mask.allowed(leading, problem.leading, problem.q_len, problem.k_len, i, j);
  });
}

reference::Problem Case::for_reference() const {
  reference::Problem p{query, key, value, {}, problem.scale, {}};
  if (bias.defined()) p.bias = bias;
  if (!masks.empty())
    p.allowed = [this](std::span<const int64_t> leading, int64_t i, int64_t j) {
      return allowed(leading, i, j);
    };
  return p;
}

int problem_count(int standard) {
#if RAPT_SANITIZED
  constexpr int kPercent = 5;
#elif defined(__OPTIMIZE__)
  constexpr int kPercent = 100;
#else
  constexpr int kPercent = 20;
#endif
  const char* chosen = std::getenv("RAPT_TEST_PERCENT");
  const int percent = chosen ? std::atoi(chosen) : kPercent;
  return std::max(1, standard * percent / 100);
}

uint64_t base_seed() {
  const char* chosen = std::getenv("RAPT_TEST_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : 20240607u;
}

size_t distinct_problems() { return seen().size(); }

}  // namespace laws

#include "check/draw/drawn_mask.h"

#include <algorithm>
#include <stdexcept>

#include "check/problem/parse_masks.h"

namespace check {
namespace {

// Near 0, anywhere in the problem, or at an end of the range, beyond every position.
int64_t drawn_integer(Random& random, const rapt::Range& range, const Descriptor& problem) {
  const auto least = static_cast<int64_t>(std::max(range.min, rapt::kAnyInteger.min));
  const auto most = static_cast<int64_t>(std::min(range.max, rapt::kAnyInteger.max));
  if (random.chance(0.04)) return random.chance(0.5) ? least : most;
  const int64_t far = std::max(problem.q_len, problem.k_len) + 2;
  const bool near = random.chance(0.5);
  const int64_t begin = std::clamp(near ? -3 : -far, least, most);
  return random.between(begin, std::clamp(near ? 9 : far, begin, most));
}

std::string drawn_value(Random& random, const rapt::Parameter& parameter,
                        const Descriptor& problem) {
  if (parameter.type == rapt::ParameterType::integer)
    return std::to_string(drawn_integer(random, parameter.range, problem));
  if (parameter.type == rapt::ParameterType::choice) return random.pick(parameter.choices);
  throw std::logic_error("variant_arguments.h: a mask with a real parameter");
}

std::string drawn_number(Random& random, const MaskNumber& number) {
  if (number.whole) {
    const auto least = static_cast<int64_t>(number.least);
    return std::to_string(random.between(least, least + 5));
  }
  const double part = random.pick({0.0, 0.05, 0.3, 0.5, 0.7, 0.95, 1.0});
  return number_text(number.least + part * (number.most - number.least));
}

// The first leading dimensions, some of them shared.
Dims drawn_batch_dims(Random& random, const Dims& leading, int64_t least) {
  Dims dims = leading;
  const auto rank = static_cast<int64_t>(leading.size());
  dims.resize(static_cast<size_t>(random.between(std::min(least, rank), rank)));
  for (int64_t& length : dims)
    if (random.chance(0.15)) length = 1;
  return dims;
}

std::string drawn_text(Random& random, const rapt::Declaration& mask, const Descriptor& problem,
                       bool with_tensors) {
  std::string inside;
  const auto add = [&](const std::string& item) { inside += (inside.empty() ? "" : ",") + item; };
  if (!mask.examples.empty() && random.chance(0.3)) {
    inside = random.pick(mask.examples);
  } else {
    for (const rapt::Parameter& parameter : mask.parameters) {
      if (parameter.type == rapt::ParameterType::tensor) continue;
      if (!parameter.required && random.chance(0.3)) continue;
      add(parameter.name + ("=" + drawn_value(random, parameter, problem)));
    }
  }
  const MaskTensorTraits traits = tensor_traits(mask);
  if (traits.required || (traits.any && with_tensors)) {
    if (traits.number) add(drawn_number(random, *traits.number));
    if (traits.dims == MaskDims::pairs) add(to_string(drawn_matrix_dims(random, problem)));
    if (traits.dims == MaskDims::batches || traits.dims == MaskDims::shared)
      add(to_string(drawn_batch_dims(random, problem.leading, traits.dims == MaskDims::batches)));
  }
  return mask.name + (inside.empty() ? "" : "(" + inside + ")");
}

// Reads a mask. Throws rapt::Error if the library rejects it, tensors included.
MaskSpec read_mask(Random random, const std::string& text, const Descriptor& problem) {
  Scanner in(text);
  MaskSpec mask = parse_masks(in, problem).front();
  MaskSpec tried = mask;
  std::vector<Tensor> tensors;
  tried.draw(random, problem.q_len, problem.k_len, tensors);
  tried.make()->check(problem.leading, problem.q_len, problem.k_len);
  return mask;
}

}  // namespace

MaskSpec drawn_mask(Random& random, const rapt::Declaration& mask, const Descriptor& problem,
                    bool with_tensors) {
  constexpr int kMostTries = 1000;  // arguments that exclude each other are drawn again
  for (int n = 0; n < kMostTries; ++n) {
    try {
      return read_mask(random, drawn_text(random, mask, problem, with_tensors), problem);
    } catch (const rapt::Error&) {
    }
  }
  throw std::logic_error(std::string("no arguments found for mask ") + mask.name);
}

MaskSpec drawn_leaf(Random& random, const Descriptor& problem, bool tensors) {
  for (;;) {
    const rapt::Declaration& mask = *random.pick(leaf_masks());
    const MaskTensorTraits traits = tensor_traits(mask);
    if (traits.required && !tensors) continue;
    return drawn_mask(random, mask, problem, traits.any && tensors && random.chance(0.4));
  }
}

Dims drawn_matrix_dims(Random& random, const Descriptor& problem) {
  Dims dims = problem.leading;
  const auto rank = static_cast<int64_t>(dims.size());
  dims.insert(dims.end(), {problem.q_len, problem.k_len});
  for (size_t i = 0; i < dims.size(); ++i)
    if (random.chance(i + 2 < dims.size() ? 0.4 : 0.1)) dims[i] = 1;
  dims.erase(dims.begin(), dims.begin() + random.between(0, rank));
  return dims;
}

}  // namespace check

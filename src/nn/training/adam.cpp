#include "rapt/nn/adam.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/row_tasks.h"
#include "nn/training/parameter_arrays.h"

namespace rapt::nn {
namespace {

// Operations that take as long as an element, whose 28 bytes come from memory.
constexpr double kAdamWork = 300;

AdamOptions checked_options(const AdamOptions& options) {
  const auto check = [](const char* name, double value, double below) {
    if (!(value >= 0 && value < below))
      throw Error(ErrorCode::argument, std::string(name) + " of Adam is " + std::to_string(value) +
                                           (below == 1 ? "; expected 0 or more, and below 1"
                                                       : "; expected a finite number, 0 or more"));
  };
  check("beta1", options.beta1, 1);
  check("beta2", options.beta2, 1);
  check("eps", options.eps, INFINITY);
  check("weight_decay", options.weight_decay, INFINITY);
  check("learning_rate_scale", options.learning_rate_scale, INFINITY);
  return options;
}

AdamOptions as_adam(const AdamWOptions& o) {
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .learning_rate_scale = o.learning_rate_scale};
}

std::vector<NamedParameter> numbered(std::span<Parameter* const> parameters) {
  std::vector<NamedParameter> all;
  for (size_t i = 0; i < parameters.size(); ++i) all.push_back({std::to_string(i), parameters[i]});
  return all;
}

// x^n by repeated squares: the same bits with any C library.
double power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2 == 1) result *= x;
  return result;
}

AdamStep step_of(const AdamOptions& o, bool decoupled, double learning_rate, int64_t t) {
  const double rate = learning_rate * o.learning_rate_scale;
  return {.keep = decoupled ? 1 - rate * o.weight_decay : 1,
          .decay = decoupled ? 0 : o.weight_decay,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .root_factor = 1 / std::sqrt(1 - power(o.beta2, t)),
          .eps = o.eps,
          .step_size = rate / (1 - power(o.beta1, t))};
}

Tensor zeros(DType dtype, Shape shape) {
  Tensor t(dtype, shape);
  if (const int64_t count = t.count(); count > 0)
    std::memset(t.data(), 0, static_cast<size_t>(count * size_of(dtype)));
  return t;
}

bool fits(const Tensor& tensor, Shape shape, DType dtype) {
  const Shape dims = tensor.dims();
  return tensor.defined() && tensor.dtype() == dtype &&
         std::equal(dims.begin(), dims.end(), shape.begin(), shape.end());
}

// The value that occurs twice, or the end.
template <class Value>
auto twice(std::vector<Value>& values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end());
}

}  // namespace

Adam::Adam(std::vector<NamedParameter> parameters, const AdamOptions& options) {
  add_group(std::move(parameters), options);
}
Adam::Adam(std::span<Parameter* const> parameters, const AdamOptions& options)
    : Adam(numbered(parameters), options) {}

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options) : AdamW() {
  add_group(std::move(parameters), options);
}
AdamW::AdamW(std::span<Parameter* const> parameters, const AdamWOptions& options)
    : AdamW(numbered(parameters), options) {}
void AdamW::add_group(std::vector<NamedParameter> parameters, const AdamWOptions& options) {
  Adam::add_group(std::move(parameters), as_adam(options));
}

void Adam::add_group(std::vector<NamedParameter> parameters, const AdamOptions& options) {
  checked_options(options);
  std::vector<Slot> more;
  for (NamedParameter& named : parameters) {
    if (!named.parameter) throw Error(ErrorCode::argument, named.name + " is a null parameter");
    if (named.parameter->learns()) more.push_back(make_slot(std::move(named), options));
  }
  check_unique(more);
  slots_.reserve(slots_.size() + more.size());
  std::move(more.begin(), more.end(), std::back_inserter(slots_));
}

Adam::Slot Adam::make_slot(NamedParameter named, const AdamOptions& options) {
  const TensorView value = named.parameter->value.view();
  Slot slot{.name = std::move(named.name),
            .parameter = named.parameter,
            .options = options,
            .dtype = value.dtype};
  in_computed_type(slot.name.c_str(), value.dtype, [&]<class E>() {
    slot.first = zeros(dtype_of<E>(), value.dims());
    slot.second = zeros(dtype_of<E>(), value.dims());
    if (value.dtype != dtype_of<E>()) slot.master = zeros(dtype_of<E>(), value.dims());
  });
  slot.steps = zeros(DType::i64, Shape());
  check_slot(slot);
  return slot;
}

// A parameter may have been exchanged since its state was made. Builds text for an error only.
void Adam::check_slot(const Slot& slot) {
  const Parameter& p = *slot.parameter;
  const Shape shape = slot.first.dims();
  if (!fits(p.value, shape, slot.dtype))
    check_input(slot.name.c_str(), p.value.view(), shape, slot.dtype);
  if (!fits(p.gradient, shape, slot.first.dtype()))
    check_input(("the gradient of " + slot.name).c_str(), p.gradient.view(), shape,
                slot.first.dtype());
}

void Adam::check_unique(const std::vector<Slot>& more) const {
  std::vector<const Parameter*> parameters;
  std::vector<std::string> names;
  for (const std::vector<Slot>* slots : {&slots_, &more})
    for (const Slot& slot : *slots) {
      parameters.push_back(slot.parameter);
      names.push_back(slot.name);
    }
  if (const auto same = twice(names); same != names.end())
    throw Error(ErrorCode::argument,
                "two parameters of the optimiser are named " + *same +
                    "; expected different names: give named_parameters() a prefix");
  if (const auto same = twice(parameters); same != parameters.end())
    throw Error(ErrorCode::argument,
                "a parameter of shape " + to_string((*same)->value.dims()) +
                    " is given to the optimiser twice; expected each parameter once");
}

void Adam::step(double learning_rate, const Context& context) {
  if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
    throw Error(ErrorCode::argument, "the learning rate is " + std::to_string(learning_rate) +
                                         "; expected a finite number, 0 or more");
  int64_t count = 0;
  for (const Slot& slot : slots_)
    if (slot.parameter->learns()) check_slot(slot), count += slot.first.count();
  const Context whole = uninterrupted(context);
  const auto length = [&](size_t i) {
    return slots_[i].parameter->learns() ? slots_[i].first.count() : 0;
  };
  for_ranges(whole, count, kAdamWork * static_cast<double>(count), [&](int64_t begin, int64_t end) {
    for_parts(slots_.size(), length, begin, end, [&](size_t i, int64_t from, int64_t to) {
      update(slots_[i], learning_rate, from, to);
    });
  });
  for (Slot& slot : slots_)
    if (slot.parameter->learns()) ++slot.steps.values<int64_t>()[0];
}

void Adam::update(Slot& slot, double learning_rate, int64_t begin, int64_t end) const {
  const int64_t t = slot.steps.values<int64_t>()[0] + 1;
  const AdamStep step = step_of(slot.options, decoupled_, learning_rate, t);
  in_computed_type("a parameter", slot.dtype, [&]<class E>() {
    const auto at = [&](Tensor& tensor) {
      return tensor.defined() ? static_cast<E*>(tensor.data()) + begin : nullptr;
    };
    auto* const value = static_cast<std::byte*>(slot.parameter->value.data());
    layer_kernels<E>().adam[static_cast<int>(slot.dtype)](
        step, at(slot.parameter->gradient), end - begin, value + begin * size_of(slot.dtype),
        at(slot.master), at(slot.first), at(slot.second));
  });
}

std::vector<NamedView> Adam::state() {
  std::vector<NamedView> all;
  for (Slot& slot : slots_) {
    all.push_back({slot.name + ".step", slot.steps.view()});
    all.push_back({slot.name + ".exp_avg", slot.first.view()});
    all.push_back({slot.name + ".exp_avg_sq", slot.second.view()});
    if (slot.master.defined()) all.push_back({slot.name + ".master", slot.master.view()});
  }
  return all;
}

SplitParameters split_by_rank(std::vector<NamedParameter> parameters) {
  SplitParameters split;
  for (NamedParameter& p : parameters)
    (p.parameter->value.rank() >= 2 ? split.weights : split.others).push_back(std::move(p));
  return split;
}

}  // namespace rapt::nn

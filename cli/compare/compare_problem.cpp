#include "cli/compare/compare_problem.h"

#include <cmath>

#include "check/tensors/random.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

bool same_view(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype;
}

}  // namespace

CompareProblem::CompareProblem(const CompareArguments& a, TensorInput& files)
    : seed_(made_sizes(a).seed), budget_(files.budget()) {
  context_.threads = 1;
  context_.cancel = &interruption();
  read(a, files);
  if (!a.scale.empty())
    options_.scale = parse_real("--scale", a.scale);
  else
    options_.scale = inputs_.scale;
  masks_ = read_masks(a.masks, files);
  if (masks_.bias.view().defined())
    throw Failure(Exit::data, "--mask file:" + masks_.bias_file + " holds floats, which is a bias",
                  "rapt compare has no bias; convert a mask with .astype(bool)");
  options_.masks = masks_.pointers;
  const size_t unused =
      workspace_bytes(inputs_.query, inputs_.key, inputs_.value, options_, context_);
  static_cast<void>(unused);
  output_shape_ = leading_dimensions(inputs_);
  output_shape_.push_back(q_len());
  output_shape_.push_back(inputs_.value.shape[inputs_.value.rank - 1]);
  if (q_len() < 1 || k_len() < 1 || element_count(output_shape_) < 1)
    throw Failure(Exit::data, "there is nothing to compare: the output is " +
                                  to_string(output_shape_) + " of " + std::to_string(k_len()) +
                                  " keys");
  if (a.gradients) draw_d_output(files.budget());
}

void CompareProblem::read(const CompareArguments& a, TensorInput& files) {
  if (const std::optional<MadeInput> made = made_input(a)) {
    const DType dtype = dtype_named("--dtype", a.dtype).value_or(DType::f32);
    inputs_ = made_inputs(*made, made_sizes(a), dtype, files.budget());
    input_text_ = a.input.empty() ? "normal(1)" : a.input;
    return;
  }
  inputs_ = read_inputs(inputs_as_of_attend(a), files);
  // One file for both is one view, also where it was converted.
  if (!a.query.empty() && a.query == a.key) inputs_.key = inputs_.query;
  input_text_ = a.text.empty() ? a.query : "the text of " + inputs_.text_source;
}

void CompareProblem::draw_d_output(MemoryBudget& budget) {
  const DType drawn_dtype = dtype() == DType::f64 ? DType::f64 : DType::f32;
  const int64_t bytes_of_element =
      size_of(drawn_dtype) + (dtype() == drawn_dtype ? 0 : size_of(dtype()));
  budget.take(element_count(output_shape_) * bytes_of_element, "the gradient of the output");
  Tensor drawn(drawn_dtype, output_shape_);
  // Not the numbers that made inputs are drawn from.
  check::Random random(~seed_);
  const auto fill = [&](auto numbers) {
    for (auto& x : numbers) x = static_cast<std::remove_reference_t<decltype(x)>>(random.normal());
  };
  if (drawn_dtype == DType::f64)
    fill(drawn.values<double>());
  else
    fill(drawn.values<float>());
  d_output_ = drawn_dtype == dtype() ? std::move(drawn) : converted(drawn.view(), dtype());
}

ComparedCall CompareProblem::exact_call(DType dtype) {
  ComparedCall call;
  call.options = options_;
  if (dtype == this->dtype()) {
    call.query = inputs_.query;
    call.key = inputs_.key;
    call.value = inputs_.value;
    if (d_output_.defined()) call.d_output = std::as_const(d_output_).view();
    return call;
  }
  const bool shared = same_view(inputs_.query, inputs_.key);
  if (!converted_.contains(dtype)) {
    const int64_t elements = inputs_.query.count() + (shared ? 0 : inputs_.key.count()) +
                             inputs_.value.count() + d_output_.count();
    budget_.take(elements * size_of(dtype), std::string("the inputs as ") + name_of(dtype));
    Converted& made = converted_[dtype];
    made.query = converted(inputs_.query, dtype);
    if (!shared) made.key = converted(inputs_.key, dtype);
    made.value = converted(inputs_.value, dtype);
    if (d_output_.defined()) made.d_output = converted(d_output_.view(), dtype);
  }
  const Converted& made = converted_.at(dtype);
  call.query = made.query.view();
  call.key = shared ? call.query : made.key.view();
  call.value = made.value.view();
  if (made.d_output.defined()) call.d_output = made.d_output.view();
  return call;
}

double CompareProblem::scale() const {
  return options_.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim())));
}

int64_t CompareProblem::heads() const {
  return element_count(output_shape_) / (q_len() * value_dim());
}

}  // namespace rapt::cli

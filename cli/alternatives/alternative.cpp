#include "cli/alternatives/alternative.h"

#include <string_view>
#include <utility>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_input.h"
#include "cli/input/variant_input.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// The parameter from which a method draws; null if there is none, or if a tensor replaces what
// would be drawn.
const Parameter* seed_of(const Method& method) {
  const Parameter* seed = nullptr;
  for (const Parameter& parameter : method.declaration().parameters) {
    const std::string_view name = parameter.name;
    const bool drawn = name == "rotations" || name == "projection";
    if (drawn && parameter.get(dynamic_cast<const void*>(&method)).tensor.defined()) return nullptr;
    if (name == "seed") seed = &parameter;
  }
  return seed;
}

// The message of an error without the option of `rapt attend` that it begins with.
std::string without_option(const std::string& message, const AlternativeSpec& spec) {
  for (const std::string& before :
       {"--mask " + spec.value, "--normalizer " + spec.value, std::string("--mask"),
        std::string("--normalizer"), std::string("--precision"), std::string("--dtype")})
    if (message.starts_with(before + ": ")) return message.substr(before.size() + 2);
  return message;
}

}  // namespace

Alternative::Alternative(AlternativeSpec spec, TensorInput* files) : spec_(std::move(spec)) {
  try {
    make(files);
  } catch (const Failure& failure) {
    if (spec_.changed == Changed::method) throw;
    throw Failure(failure.exit(),
                  "--method " + spec_.text + ": " + without_option(failure.what(), spec_),
                  failure.hint());
  }
  if (!is_random()) return;
  const void* const object = dynamic_cast<const void*>(method_.get());
  first_seed_ = seed_of(*method_)->get(object).integer;
}

void Alternative::make(TensorInput* files) {
  const std::string& value = spec_.value;
  switch (spec_.changed) {
    case Changed::method:
      method_ = make_method_with_files(value, files, tensors_);
      return;
    case Changed::mask:
      check_masks({value});
      if (files == nullptr) return;
      masks_ = read_masks({value}, *files);
      if (masks_.bias.view().defined())
        throw Failure(Exit::data, "the file holds floats, which would be a bias",
                      "true = may attend; convert it with .astype(bool)");
      return;
    case Changed::precision:
      precision_ = precision_from(value == "automatic" ? "auto" : value);
      return;
    case Changed::dtype:
      dtype_ = dtype_named("--dtype", value);
      return;
    case Changed::normalizer:
      normalizer_.emplace(make_normalizer_with_files(value, files, tensors_));
      return;
  }
}

void Alternative::apply(AttentionOptions& options) const {
  if (!masks_.pointers.empty()) {
    std::vector<const Mask*> masks(options.masks.begin(), options.masks.end());
    masks.insert(masks.end(), masks_.pointers.begin(), masks_.pointers.end());
    options.masks = masks;
  }
  if (precision_) options.precision = *precision_;
  if (normalizer_) options.normalizer = *normalizer_;
  if (method_) options.method = method_.get();
}

bool Alternative::is_random() const { return method_ && seed_of(*method_) != nullptr; }

void Alternative::move_seed(int64_t steps) {
  if (!is_random()) return;
  Argument seed;
  seed.type = ParameterType::integer;
  seed.integer = first_seed_ + steps;
  seed_of(*method_)->set(dynamic_cast<void*>(method_.get()), seed);
}

}  // namespace rapt::cli

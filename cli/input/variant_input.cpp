// Makes scores (with their tensors), normalisers, methods, row transforms and relative positions
// from text.
#include "cli/input/variant_input.h"

#include "cli/attend/attend_input.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/call_form.h"
#include "cli/input/matrix_argument.h"
#include "cli/process/failure.h"

namespace rapt::cli {

ScoreList ScoreInput::list() const {
  std::vector<ScoreRef> refs;
  for (const MadeScore& score : scores) refs.push_back(score.ref);
  try {
    return ScoreList(std::span<const ScoreRef>(refs));
  } catch (const Error& error) {
    throw usage_error(std::string("--score: ") + error.what());
  }
}

namespace {

// Reads the files that a spec names.
TensorSource files_of(const char* option, TensorInput* files, std::vector<LoadedTensor>& tensors) {
  return [=, &tensors](std::string_view name) -> TensorView {
    if (files == nullptr) return {};
    LoadedTensor tensor = files->read(option, std::string(name));
    // Checkpoints hold 16-bit numbers; the conversion is exact.
    if (size_of(tensor.view().dtype) == 2) tensor = owned(converted(tensor.view(), DType::f32));
    tensors.push_back(std::move(tensor));
    return tensors.back().view();
  };
}

// Throws Error(unsupported) for a tensor that a method would write: no command saves it.
void refuse_written(const Method* method) {
  const void* const object = dynamic_cast<const void*>(method);
  for (const Parameter& parameter : method->declaration().parameters)
    if (parameter.written && parameter.get(object).tensor.defined())
      throw Error(ErrorCode::unsupported,
                  parameter.name + std::string(" is written by the call, and would be lost; leave "
                                               "it out, or write a program"));
}

}  // namespace

void add_score(const std::string& option, const std::string& spec, TensorInput* files,
               ScoreInput& input) {
  try {
    input.scores.push_back(make_score(call_form(spec), files_of("--score", files, input.tensors)));
  } catch (const Error& error) {
    throw usage_error(option + ": " + error.what());
  }
  input.specs.push_back(spec);
}

MadeNormalizer make_normalizer_with_files(const std::string& spec, TensorInput* files,
                                          std::vector<LoadedTensor>& tensors) {
  try {
    return make_normalizer(call_form(spec), files_of("--normalizer", files, tensors));
  } catch (const Error& error) {
    throw usage_error("--normalizer " + spec + ": " + error.what());
  }
}

std::unique_ptr<Method> make_method_with_files(const std::string& spec, TensorInput* files,
                                               std::vector<LoadedTensor>& tensors) {
  try {
    std::unique_ptr<Method> method =
        make_method(call_form(spec), files_of("--method", files, tensors));
    refuse_written(method.get());
    return method;
  } catch (const Error& error) {
    throw usage_error("--method " + spec + ": " + error.what());
  }
}

Cosine parse_cosine(const std::string& epsilon) {
  Cosine cosine;
  if (!epsilon.empty()) cosine.epsilon = parse_real("--cosine", epsilon);
  try {
    check_parameters(Cosine::kDeclaration, &cosine);
  } catch (const Error& error) {
    throw usage_error(std::string("--cosine: ") + error.what());
  }
  return cosine;
}

Rotary parse_rotary(const std::string& parameters) {
  try {
    return make_rotary("rotary(" + parameters + ")");
  } catch (const Error& error) {
    throw usage_error("--rotary " + parameters + ": " + error.what());
  }
}

RelativePositions parse_relative(const std::string& parameters, TensorInput* files, DType dtype,
                                 std::vector<LoadedTensor>& tensors) {
  const TensorSource source = [&](std::string_view name) -> TensorView {
    const std::string text(name);
    if (is_matrix_text(text)) {
      tensors.push_back(owned(converted(parse_matrix("--relative", text), dtype)));
      const TensorView matrix = tensors.back().view();
      if (matrix.shape[0] > 1) return matrix;
      return {matrix.data, dtype, matrix.dims().subspan(1), true};
    }
    if (files == nullptr) {
      constexpr int64_t kNothing[] = {0};
      return {nullptr, dtype, kNothing, true};
    }
    LoadedTensor tensor = files->read("--relative", text);
    convert_input("--relative " + text, tensor, dtype, files->budget());
    tensors.push_back(std::move(tensor));
    return tensors.back().view();
  };
  try {
    return make_relative("relative(" + parameters + ")", source);
  } catch (const Error& error) {
    throw usage_error("--relative " + parameters + ": " + error.what());
  }
}

std::vector<std::string> relative_names(const std::string& parameters) {
  std::vector<LoadedTensor> none;
  const RelativePositions relative = parse_relative(parameters, nullptr, DType::f32, none);
  std::vector<std::string> names;
  for (const Parameter& parameter : RelativePositions::kDeclaration.parameters)
    if (parameter.type == ParameterType::tensor && parameter.get(&relative).tensor.defined())
      names.emplace_back(parameter.name);
  return names;
}

}  // namespace rapt::cli

// Making scores, with the tensors that they look at, normalisers and changes of rows.
#include "variant_input.h"

#include "arguments.h"
#include "call_form.h"
#include "conversion.h"
#include "failure.h"

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

void add_score(const std::string& option, const std::string& spec, TensorInput* files,
               ScoreInput& input) {
  const auto tensor_named = [&](std::string_view name) -> TensorView {
    if (files == nullptr) return {};
    LoadedTensor tensor = files->read("--score", std::string(name));
    // Checkpoints hold 16 bits; nothing is lost in between.
    if (size_of(tensor.view().dtype) == 2) tensor = owned(converted(tensor.view(), DType::f32));
    input.tensors.push_back(std::move(tensor));
    return input.tensors.back().view();
  };
  try {
    input.scores.push_back(make_score(call_form(spec), tensor_named));
  } catch (const Error& error) {
    throw usage_error(option + ": " + error.what());
  }
  input.specs.push_back(spec);
}

MadeNormalizer made_normalizer(const std::string& spec) {
  try {
    return make_normalizer(spec);
  } catch (const Error& error) {
    throw usage_error("--normalizer " + spec + ": " + error.what());
  }
}

Cosine made_cosine(const std::string& epsilon) {
  Cosine cosine;
  if (!epsilon.empty()) cosine.epsilon = parse_real("--cosine", epsilon);
  try {
    check_parameters(Cosine::kDeclaration, &cosine);
  } catch (const Error& error) {
    throw usage_error(std::string("--cosine: ") + error.what());
  }
  return cosine;
}

Rotary made_rotary(const std::string& parameters) {
  try {
    return make_rotary("rotary(" + parameters + ")");
  } catch (const Error& error) {
    throw usage_error("--rotary " + parameters + ": " + error.what());
  }
}

}  // namespace rapt::cli

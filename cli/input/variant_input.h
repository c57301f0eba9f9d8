#pragma once
// Scores, normalisers, methods, row transforms and relative positions of the command line.
#include <string>
#include <vector>

#include "cli/input/tensor_input.h"
#include "rapt/catalogue.h"
#include "rapt/cosine.h"
#include "rapt/relative.h"
#include "rapt/rotary.h"

namespace rapt::cli {

// The result of --score: scores, and the tensors that they refer to.
struct ScoreInput {
  std::vector<std::string> specs;     // as given
  std::vector<MadeScore> scores;      // in the order of specs
  std::vector<LoadedTensor> tensors;  // files that the scores refer to

  // For AttentionOptions; must not outlive this. Throws usage errors for too many.
  ScoreList list() const;
};

// Adds softcap(30), head_scale(F.npy) and so on. `option` is the option for messages. Without
// `files` no tensor is read. Throws usage errors for errors in a spec's text.
void add_score(const std::string& option, const std::string& spec, TensorInput* files,
               ScoreInput& input);

// The normaliser of --normalizer; its files are added to `tensors`. Throws as add_score().
MadeNormalizer make_normalizer_with_files(const std::string& spec, TensorInput* files,
                                          std::vector<LoadedTensor>& tensors);

// The method of --method, the same.
std::unique_ptr<Method> make_method_with_files(const std::string& spec, TensorInput* files,
                                               std::vector<LoadedTensor>& tensors);

// The row transforms of --cosine and --rotary with their optional parameters. Throw usage errors.
Cosine parse_cosine(const std::string& epsilon);
Rotary parse_rotary(const std::string& parameters);

// The relative positions of --relative. Its files, or matrices on the command line such as "1 2; 3
// 4" (one row is [dims]), are added to `tensors`, converted to `dtype`. Without `files` a named
// tensor is present and empty. Throws as add_score().
RelativePositions parse_relative(const std::string& parameters, TensorInput* files, DType dtype,
                                 std::vector<LoadedTensor>& tensors);
// The tensors that --relative names, in the order of the declaration.
std::vector<std::string> relative_names(const std::string& parameters);

}  // namespace rapt::cli

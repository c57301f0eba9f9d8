#pragma once
// Scores, normalisers, row transforms and relative positions as the command line spells them.
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
  std::vector<LoadedTensor> tensors;  // files that the scores look at

  // For AttentionOptions; must not outlive this. Throws usage errors for too many.
  ScoreList list() const;
};

// Adds softcap(30), head_scale(F.npy) and so on. `option` is what errors name. Without files no
// tensor is looked at. Throws usage errors for what a spec's text has wrong.
void add_score(const std::string& option, const std::string& spec, TensorInput* files,
               ScoreInput& input);

// The normaliser of --normalizer; its files are added to `tensors`. Throws as add_score().
MadeNormalizer make_normalizer_with_files(const std::string& spec, TensorInput* files,
                                          std::vector<LoadedTensor>& tensors);

// The row transforms of --cosine and --rotary with their optional parameters. Throw usage errors.
Cosine parse_cosine(const std::string& epsilon);
Rotary parse_rotary(const std::string& parameters);

// Of --relative: its files, or matrices written as they are, "1 2; 3 4" (one row is [dims]), are
// added to `tensors`, converted to `dtype`. Without files a tensor that is named is there and
// empty. Throws as add_score().
RelativePositions parse_relative(const std::string& parameters, TensorInput* files, DType dtype,
                                 std::vector<LoadedTensor>& tensors);
// The tensors that --relative names, in the order of the declaration.
std::vector<std::string> relative_names(const std::string& parameters);

}  // namespace rapt::cli

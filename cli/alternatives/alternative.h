#pragma once
// An alternative to an exact call, made from its text: what a call needs to be computed that way.
#include <memory>
#include <optional>
#include <vector>

#include "cli/alternatives/alternative_spec.h"
#include "cli/input/mask_input.h"
#include "cli/input/tensor_input.h"
#include "rapt/attention.h"
#include "rapt/catalogue.h"

namespace rapt::cli {

class Alternative {
 public:
  // Reads the tensors that the text names. Without `files` none is read, which checks the text
  // alone. Throws usage errors for what is wrong with the text, Failure for files.
  Alternative(AlternativeSpec spec, TensorInput* files);

  const AlternativeSpec& spec() const { return spec_; }

  // Changes the options of the exact call, which then refer to this object. Throws
  // Error(argument) if they have too many masks.
  void apply(AttentionOptions& options) const;

  // The dtype that query, key and value are converted to; none: they stay as they are.
  std::optional<DType> dtype() const { return dtype_; }
  const Method* method() const { return method_.get(); }  // null: exact attention

  // Whether its results are drawn from a seed.
  bool is_random() const;
  // Draws by the seed of the text plus `steps`, from the next call on. Changes nothing if it is not
  // random.
  void move_seed(int64_t steps);

 private:
  void make(TensorInput* files);

  AlternativeSpec spec_;
  MaskInput masks_;
  std::optional<Precision> precision_;
  std::optional<DType> dtype_;
  std::optional<MadeNormalizer> normalizer_;
  std::unique_ptr<Method> method_;
  std::vector<LoadedTensor> tensors_;  // that normaliser and method read
  int64_t first_seed_ = 0;
};

}  // namespace rapt::cli

#pragma once
// What each written token looked at: the weights of one head of one layer, a row per token,
// collected while a text is generated.
#include <memory>
#include <string>
#include <vector>

#include "cli/output/tensor_output.h"
#include "rapt/generation/generator.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {

class AttentionRows {
 public:
  // Opens the file, so that errors are known before the computation. `target` has been checked.
  AttentionRows(const std::string& target, Overwrite overwrite);

  // Adds the row of the token that the generator has just written.
  void add(const generation::Generator& generator);

  // Makes the file appear. `tokens`: the words of the prompt and of what was written, in order.
  // Without a written token there is nothing to draw, and no file.
  void write(const generation::LayerHead& head, const std::vector<std::string>& tokens,
             int64_t prompt);

 private:
  struct Row {
    int64_t first;  // token of weights[0]
    std::vector<float> weights;
  };

  int64_t columns() const;
  std::vector<float> matrix() const;  // [rows, columns], 0 where a row has no weight
  viz::Heatmap picture(const generation::LayerHead& head, const std::vector<std::string>& tokens,
                       int64_t prompt) const;

  std::string target_;
  std::unique_ptr<Output> picture_file_;  // or
  std::unique_ptr<TensorOutputs> tensor_file_;
  std::vector<Row> rows_;
};

}  // namespace rapt::cli

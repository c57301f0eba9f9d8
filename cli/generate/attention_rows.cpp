#include "cli/generate/attention_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/generate/generate_arguments.h"
#include "cli/output/narrate.h"
#include "cli/output/tensor_text.h"

namespace rapt::cli {

AttentionRows::AttentionRows(const std::string& target, Overwrite overwrite) : target_(target) {
  if (is_picture(target)) {
    picture_file_ = std::make_unique<Output>("--attention", target, overwrite);
    return;
  }
  tensor_file_ = std::make_unique<TensorOutputs>(overwrite, NpyV2::refuse);
  tensor_file_->add("attention", "--attention", place_of("--attention", target));
}

void AttentionRows::add(const generation::Generator& generator) {
  const TensorView weights = generator.attention(0);
  Row row{generator.forgotten(), std::vector<float>(static_cast<size_t>(weights.count()))};
  for (size_t i = 0; i < row.weights.size(); ++i)
    row.weights[i] = static_cast<float>(element(weights, static_cast<int64_t>(i)));
  rows_.push_back(std::move(row));
}

int64_t AttentionRows::columns() const {
  int64_t columns = 0;
  for (const Row& row : rows_) columns = std::max(columns, row.first + std::ssize(row.weights));
  return columns;
}

std::vector<float> AttentionRows::matrix() const {
  const auto width = static_cast<size_t>(columns());
  std::vector<float> matrix(rows_.size() * width);
  for (size_t i = 0; i < rows_.size(); ++i)
    std::ranges::copy(rows_[i].weights,
                      matrix.begin() + static_cast<std::ptrdiff_t>(
                                           i * width + static_cast<size_t>(rows_[i].first)));
  return matrix;
}

viz::Heatmap AttentionRows::picture(const generation::LayerHead& head,
                                    const std::vector<std::string>& tokens, int64_t prompt) const {
  viz::Heatmap map;
  map.rows = std::ssize(rows_), map.columns = columns();
  map.values = matrix();
  for (const Row& row : rows_)
    for (int64_t j = 0; j < map.columns; ++j)
      map.allowed.push_back(j >= row.first && j < row.first + std::ssize(row.weights));
  map.row_labels.assign(tokens.begin() + prompt, tokens.begin() + prompt + map.rows);
  map.column_labels.assign(tokens.begin(), tokens.begin() + map.columns);
  map.title = fmt::format("Attention weights of layer {}, head {}", head.layer, head.head);
  map.y_label = "Written tokens";
  map.x_label = "Tokens before them";
  return map;
}

void AttentionRows::write(const generation::LayerHead& head, const std::vector<std::string>& tokens,
                          int64_t prompt) {
  if (rows_.empty()) return narrate("no token was written: no " + target_);
  if (tensor_file_) {
    const std::vector<float> weights = matrix();
    tensor_file_->set("attention", TensorView(weights.data(), {std::ssize(rows_), columns()}));
    tensor_file_->write();
    tensor_file_->commit();
    return;
  }
  const viz::Heatmap map = picture(head, tokens, prompt);
  if (target_.ends_with(".png")) {
    const std::vector<unsigned char> png = viz::to_png(map);
    picture_file_->write(png.data(), std::ssize(png));
  } else {
    const std::string svg = viz::to_svg(map);
    picture_file_->write(svg.data(), std::ssize(svg));
  }
  picture_file_->commit("attention");
}

}  // namespace rapt::cli

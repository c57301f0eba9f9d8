// Numbers of tensors as text and as JSON.
#include "cli/output/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace rapt::cli {
namespace {

std::string number_text(double value) {
  if (std::isfinite(value)) return fmt::format("{:.4f}", value);
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

nlohmann::ordered_json values_from(const TensorView& tensor, int dim, int64_t& position) {
  if (dim == tensor.rank) {
    const double value = element(tensor, position++);
    return tensor.dtype == DType::i64 ? nlohmann::ordered_json(static_cast<int64_t>(value))
                                      : json_number(value);
  }
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < tensor.shape[dim]; ++i) {
    array.push_back(values_from(tensor, dim + 1, position));
  }
  return array;
}

}  // namespace

std::string type_text(const TensorView& tensor) {
  return std::string(name_of(tensor.dtype)) + " " + to_string(tensor.dims());
}

std::string matrix_text(const TensorView& matrix, const std::string& indent) {
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  if (rows == 0) return indent + "[]\n";
  std::vector<std::string> cells;
  size_t width = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    cells.push_back(number_text(element(matrix, i)));
    width = std::max(width, cells.back().size());
  }
  std::string text;
  for (int64_t i = 0; i < rows; ++i) {
    text += indent + (i == 0 ? "[[" : " [");
    for (int64_t j = 0; j < columns; ++j) {
      text +=
          fmt::format("{}{:>{}}", j ? " " : "", cells[static_cast<size_t>(i * columns + j)], width);
    }
    text += i + 1 == rows ? "]]\n" : "]\n";
  }
  return text;
}

double element(const TensorView& tensor, int64_t position) {
  int64_t offset = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    offset += position % tensor.shape[d] * tensor.strides[d];
    position /= tensor.shape[d];
  }
  switch (tensor.dtype) {
    case DType::f32:
      return static_cast<const float*>(tensor.data)[offset];
    case DType::f64:
      return static_cast<const double*>(tensor.data)[offset];
    case DType::bf16:
      return static_cast<const BFloat16*>(tensor.data)[offset];
    case DType::f16:
      return static_cast<const Float16*>(tensor.data)[offset];
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(tensor.data)[offset]);
    default:
      throw Error(ErrorCode::dtype, std::string("expected numbers, got ") + name_of(tensor.dtype));
  }
}

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value);
}

nlohmann::ordered_json json_values(const TensorView& tensor) {
  int64_t position = 0;
  return values_from(tensor, 0, position);
}

nlohmann::ordered_json json_type(const TensorView& tensor) {
  nlohmann::ordered_json type;
  type["dtype"] = name_of(tensor.dtype);
  type["shape"] = std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end());
  return type;
}

void print_json(const nlohmann::ordered_json& document) {
  const std::string text =
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace rapt::cli

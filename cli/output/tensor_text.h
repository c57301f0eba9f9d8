#pragma once
// Tensors as text: rows of numbers for people, nested arrays for programs.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "rapt/tensor.h"

namespace rapt::cli {

// "f32 [2, 8, 1024, 64]"
std::string type_text(const TensorView& tensor);

// The numbers of a matrix with four decimals, in columns:
//   [[0.4787 0.5213]
//    [0.4474 0.5526]]
// Each line starts with `indent` and ends in a newline.
std::string matrix_text(const TensorView& matrix, const std::string& indent);

// The element at a flat row-major position, as a double.
double element(const TensorView& tensor, int64_t position);

// JSON has no infinities: they become the strings "inf", "-inf" and "nan".
nlohmann::ordered_json json_number(double value);

// Nested arrays of such numbers, or of integers if the tensor has them.
nlohmann::ordered_json json_values(const TensorView& tensor);

// {"dtype": "f32", "shape": [2, 2]}
nlohmann::ordered_json json_type(const TensorView& tensor);

// One document on standard output. Bytes that are not UTF-8 (file names) become U+FFFD.
void print_json(const nlohmann::ordered_json& document);

}  // namespace rapt::cli

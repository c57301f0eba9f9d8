// Reads the inputs of `rapt attend` and converts them to one dtype.
#include "cli/attend/attend_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/output/narrate.h"
#include "cli/process/failure.h"
#include "rapt/io/text_features.h"

namespace rapt::cli {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

bool is_float(DType dtype) {
  return std::find(std::begin(kFloats), std::end(kFloats), dtype) != std::end(kFloats);
}

int64_t positive(const std::string& option, const std::string& text) {
  const int64_t value = parse_integer(option, text);
  if (value < 1) throw usage_error(option + ": expected at least 1, got " + text);
  return value;
}

struct TextShape {
  int64_t dim, heads;  // numbers per word, and the number of heads that share them
};

TextShape text_shape(const AttendArguments& arguments) {
  const int64_t dim = arguments.dim.empty() ? kTextDim : positive("--dim", arguments.dim);
  const int64_t heads = arguments.heads.empty() ? 1 : positive("--heads", arguments.heads);
  if (dim % heads != 0)
    throw usage_error(fmt::format("--heads {}: expected a divisor of --dim, {}", heads, dim));
  return {dim, heads};
}

// Words become rows. Their features are split over the heads in contiguous parts, as in multi-head
// attention: [words, dim] viewed as [heads, words, dim / heads], without a copy.
TensorView heads_side_by_side(const TensorView& features, int64_t heads) {
  if (heads == 1) return features;
  const int64_t words = features.shape[0], dim = features.shape[1];
  const int64_t shape[] = {heads, words, dim / heads};
  const int64_t strides[] = {dim / heads, dim, 1};
  return TensorView(features.data, features.dtype, shape, strides, true);
}

void read_text(const AttendArguments& arguments, DType dtype, MemoryBudget& budget,
               Inputs& inputs) {
  std::string text = arguments.text;
  inputs.text_source = "the command line";
  std::error_code ignored;
  const bool at = text[0] == '@';
  if (at || std::filesystem::is_regular_file(text, ignored)) {
    inputs.text_source = at ? text.substr(1) : text;
    text = read_text_file("--text", inputs.text_source, budget);
    if (text.find('\0') != std::string::npos)
      throw Failure(Exit::data, "--text: " + inputs.text_source + " holds zero bytes: no text",
                    "files of tensors belong to --query, --key and --value");
  }
  inputs.words = split_words(text);
  if (inputs.words.empty()) throw Failure(Exit::data, "--text: there is no word in the text");
  const auto words = static_cast<int64_t>(inputs.words.size());
  const auto [dim, heads] = text_shape(arguments);
  // A product that overflows 64 bits exceeds every budget.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t row = size_of(DType::f32) * words;
  budget.take(dim > kMost / row ? kMost : dim * row,
              fmt::format("the features of {} words", words));
  inputs.query_memory = owned(text_features(inputs.words, dim));
  convert_input("--text", inputs.query_memory, dtype, budget);
  inputs.query = inputs.key = inputs.value = heads_side_by_side(inputs.query_memory.view(), heads);
  // The squared length of a row is about 1. A head has 1 / heads of it, so the scale is multiplied
  // by the number of heads.
  inputs.scale = kTextScale * static_cast<double>(heads);
}

void read_files(const AttendArguments& arguments, std::optional<DType> asked, TensorInput& files,
                Inputs& inputs) {
  inputs.query_memory = files.read("--query", arguments.query);
  inputs.key_memory = files.read("--key", arguments.key);
  inputs.value_memory = files.read("--value", arguments.value);
  const DType dtype = asked.value_or(inputs.query_memory.view().dtype);
  if (!is_float(dtype)) {
    throw Failure(Exit::data,
                  std::string("--query: expected f32, bf16, f16 or f64, got ") + name_of(dtype),
                  "--dtype f32 converts");
  }
  convert_input("--query", inputs.query_memory, dtype, files.budget());
  convert_input("--key", inputs.key_memory, dtype, files.budget());
  convert_input("--value", inputs.value_memory, dtype, files.budget());
  inputs.query = inputs.query_memory.view();
  inputs.key = inputs.key_memory.view();
  inputs.value = inputs.value_memory.view();
}

}  // namespace

std::optional<DType> dtype_named(const std::string& option, const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const DType dtype : kFloats) {
    if (name == name_of(dtype)) return dtype;
  }
  throw usage_error(option + ": expected f32, bf16, f16 or f64, got '" + name + "'");
}

void convert_input(const std::string& option, LoadedTensor& tensor, DType dtype,
                   MemoryBudget& budget) {
  const TensorView& from = tensor.view();
  if (!from.defined() || from.dtype == dtype) return;
  if (from.dtype == DType::boolean)
    throw Failure(Exit::data, option + ": expected numbers, got a tensor of type bool",
                  option == "the bias" ? "booleans are a mask: --mask file:F" : "");
  budget.take(from.count() * size_of(dtype), option + " as " + name_of(dtype));
  narrate(option + ": " + name_of(from.dtype) + " converted to " + name_of(dtype));
  tensor = owned(converted(from, dtype));
}

void check_input_options(const AttendArguments& arguments) {
  dtype_named("--dtype", arguments.dtype);
  text_shape(arguments);
}

Inputs read_inputs(const AttendArguments& arguments, TensorInput& files) {
  const std::optional<DType> asked = dtype_named("--dtype", arguments.dtype);
  Inputs inputs;
  if (arguments.text.empty()) {
    read_files(arguments, asked, files, inputs);
  } else {
    read_text(arguments, asked.value_or(DType::f32), files.budget(), inputs);
  }
  return inputs;
}

std::vector<int64_t> leading_dimensions(const Inputs& inputs) {
  const TensorView* const views[] = {&inputs.query, &inputs.key, &inputs.value};
  int rank = 2;
  for (const TensorView* view : views) rank = std::max(rank, view->rank);
  std::vector<int64_t> leading(static_cast<size_t>(rank - 2), 1);
  for (const TensorView* view : views) {
    for (int d = 0; d < view->rank - 2; ++d) {
      int64_t& length = leading[static_cast<size_t>(d + rank - view->rank)];
      if (length == 1) length = view->shape[d];  // grouped heads: the query's count, read first
    }
  }
  return leading;
}

}  // namespace rapt::cli

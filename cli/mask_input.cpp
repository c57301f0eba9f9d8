// Mask specs: the catalogue's own, plus file:, which may turn out to be a bias.
#include "mask_input.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "arguments.h"
#include "failure.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"
#include "tensor_input.h"

namespace rapt::cli {
namespace {

constexpr const char* kOption = "--mask";

std::string name_of_spec(const std::string& spec) {
  return spec.substr(0, spec.find_first_of(":("));
}

// file:M.npy or file(M.npy). What it holds decides whether it is a mask, so it stands alone.
std::string file_of(const std::string& spec) {
  std::string file = spec.substr(std::string("file").size());
  if (file.empty()) throw usage_error("--mask file: expected file:M.npy");
  const bool call = file.front() == '(';
  file.erase(0, 1);
  size_t end = file.size();
  if (call) {
    int open = 1;
    for (end = 0; end < file.size(); ++end) {
      open += (file[end] == '(') - (file[end] == ')');
      if (open == 0) break;
    }
    if (open > 0) throw usage_error("--mask " + spec + ": ')' is missing");
  }
  if (call ? end + 1 < file.size() : file.find_first_of("&|") != std::string::npos) {
    throw usage_error("--mask " + spec + ": a file stands alone",
                      "in a combination, boolean(M.npy) reads a mask from a file");
  }
  file.resize(end);
  if (file.empty()) throw usage_error("--mask file: expected file:M.npy");
  return file;
}

template <class T>
bool holds_only_0_and_1(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return std::all_of(values.begin(), values.end(), [](T x) { return x == 0 || x == 1; });
}

void read_file_mask(const std::string& spec, MaskInput& input, MemoryBudget& budget) {
  const std::string file = file_of(spec);
  Tensor tensor = read_tensor(kOption, file, budget);
  if (tensor.dtype() == DType::boolean) {
    input.tensors.push_back(std::move(tensor));
    input.masks.push_back(std::make_unique<Boolean>(input.tensors.back().view()));
    input.specs.push_back(spec);
    return;
  }
  const bool is_f32 = tensor.dtype() == DType::f32;
  if (!is_f32 && tensor.dtype() != DType::f64) {
    throw Failure(Exit::data,
                  "--mask " + spec + ": expected booleans, got " + name_of(tensor.dtype()),
                  "convert it with .astype(bool); true = may attend");
  }
  if (is_f32 ? holds_only_0_and_1<float>(tensor) : holds_only_0_and_1<double>(tensor)) {
    throw Failure(
        Exit::data,
        "--mask " + spec + ": a file of " + name_of(tensor.dtype()) +
            " that holds only 0 and 1 may be meant as a mask or as a bias",
        "convert it with .astype(bool) for a mask (true = may attend), or give it to --bias");
  }
  if (input.bias.defined())
    throw usage_error("--mask: two files of floats; a bias can be given once");
  input.bias = std::move(tensor);
  input.bias_file = file;
}

void read_catalogue_mask(const std::string& spec, MaskInput& input, MemoryBudget& budget) {
  const TensorSource source = [&](std::string_view name) {
    Tensor tensor = read_tensor(kOption, std::string(name), budget);
    // Lengths are int64; NumPy makes int32 on some systems, and nothing is lost in between.
    if (tensor.dtype() == DType::i32) tensor = converted(tensor, DType::i64);
    input.tensors.push_back(std::move(tensor));
    return input.tensors.back().view();
  };
  try {
    input.masks.push_back(make_mask(spec, source));
  } catch (const Error& error) {
    const bool usage =
        error.code() == ErrorCode::unknown_name || error.code() == ErrorCode::argument;
    if (!usage) throw;
    throw usage_error("--mask " + spec + ": " + error.what(),
                      "besides, file:M.npy reads a mask from a file; in a combination "
                      "boolean(M.npy) does");
  }
  input.specs.push_back(spec);
}

// Clears the pairs whose bias is -inf. The bias is broadcast from the right.
template <class T>
void exclude_infinite(const TensorView& bias, const Head& head, std::vector<uint8_t>& allowed) {
  const int leading = head.rank;
  int64_t offset = 0;
  for (int d = 0; d < bias.rank - 2; ++d) {
    const int axis = leading - (bias.rank - 2) + d;
    const int64_t i = axis < 0 || bias.shape[d] == 1 ? 0 : head.index[axis];
    offset += i * bias.strides[d];
  }
  const auto stride = [&](int from_right) {
    const int d = bias.rank - from_right;
    return d < 0 || bias.shape[d] == 1 ? int64_t{0} : bias.strides[d];
  };
  const T* const values = static_cast<const T*>(bias.data) + offset;
  for (int64_t i = 0; i < head.q_len; ++i) {
    for (int64_t j = 0; j < head.k_len; ++j) {
      const T value = values[i * stride(2) + j * stride(1)];
      if (std::isinf(value) && value < 0) allowed[static_cast<size_t>(i * head.k_len + j)] = 0;
    }
  }
}

}  // namespace

MaskInput read_masks(const std::vector<std::string>& specs, MemoryBudget& budget) {
  MaskInput input;
  for (const std::string& spec : specs) {
    const std::string name = name_of_spec(spec);
    if (name == "file") {
      read_file_mask(spec, input, budget);
    } else {
      read_catalogue_mask(spec, input, budget);
    }
  }
  for (const auto& mask : input.masks) input.pointers.push_back(mask.get());
  return input;
}

std::vector<uint8_t> allowed_pairs(std::span<const Mask* const> masks, const TensorView& bias,
                                   const Head& head) {
  constexpr int64_t kQueries = 64;  // bits of a word of Mask::exclude()
  const int64_t k_len = head.k_len;
  std::vector<uint8_t> allowed(static_cast<size_t>(head.q_len * k_len), 1);
  std::vector<uint64_t> words(static_cast<size_t>(k_len));
  for (const Mask* mask : masks) {
    std::vector<BoundMask> slots(static_cast<size_t>(mask->bound_slots()));
    slots[0] = {.mask = mask, .q_len = head.q_len, .k_len = k_len};
    mask->bind(head, slots.data());
    const BoundMask& bound = slots[0];
    for (int64_t begin = 0; begin < head.q_len; begin += kQueries) {
      const Positions queries{.start = begin, .count = std::min(kQueries, head.q_len - begin)};
      const Positions keys{.start = 0, .count = k_len};
      const Cover cover = k_len == 0 ? Cover::all : mask->cover(bound, queries, keys);
      if (cover == Cover::all) continue;
      std::fill(words.begin(), words.end(), cover == Cover::none ? 0 : ~uint64_t{0});
      if (cover == Cover::some) mask->exclude(bound, queries, keys, words.data());
      for (int64_t j = 0; j < k_len; ++j) {
        for (int64_t i = 0; i < queries.count; ++i) {
          if (words[static_cast<size_t>(j)] >> i & 1) continue;
          allowed[static_cast<size_t>((begin + i) * k_len + j)] = 0;
        }
      }
    }
  }
  if (bias.defined() && bias.dtype == DType::f32) exclude_infinite<float>(bias, head, allowed);
  if (bias.defined() && bias.dtype == DType::f64) exclude_infinite<double>(bias, head, allowed);
  return allowed;
}

}  // namespace rapt::cli

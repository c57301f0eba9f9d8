// Mask specs: the catalogue's own, plus file:, which may turn out to be a bias.
#include "cli/input/mask_input.h"

#include <algorithm>
#include <string_view>

#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/call_form.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"

namespace rapt::cli {
namespace {

constexpr const char* kOption = "--mask";

std::string name_of_spec(const std::string& spec) {
  return spec.substr(0, spec.find_first_of(":("));
}

// The file of file:M.npy or file(M.npy). Its contents decide whether it is a mask, so it must be a
// spec on its own.
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

// The elements must be dense, in any order.
template <class T>
bool all_0_or_1(const TensorView& tensor) {
  const T* const values = static_cast<const T*>(tensor.data);
  return std::all_of(values, values + tensor.count(), [](T x) { return x == 0 || x == 1; });
}

// Throws if the type is not a floating-point type.
bool holds_only_0_and_1(const std::string& spec, const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::f32:
      return all_0_or_1<float>(tensor);
    case DType::f64:
      return all_0_or_1<double>(tensor);
    case DType::bf16:
      return all_0_or_1<BFloat16>(tensor);
    case DType::f16:
      return all_0_or_1<Float16>(tensor);
    default:
      throw Failure(Exit::data,
                    "--mask " + spec + ": expected booleans, or floats as a bias, got " +
                        name_of(tensor.dtype),
                    "convert it with .astype(bool) for a mask; true = may attend");
  }
}

void read_file_mask(const std::string& spec, MaskInput& input, TensorInput& files) {
  const std::string file = file_of(spec);
  LoadedTensor loaded = files.read(kOption, file);
  const TensorView& tensor = loaded.view();
  if (tensor.dtype == DType::boolean) {
    input.tensors.push_back(std::move(loaded));
    input.masks.push_back(std::make_unique<Boolean>(input.tensors.back().view()));
    input.specs.push_back(spec);
    return;
  }
  if (holds_only_0_and_1(spec, tensor)) {
    throw Failure(
        Exit::data,
        "--mask " + spec + ": a file of " + name_of(tensor.dtype) +
            " that holds only 0 and 1 may be meant as a mask or as a bias",
        "convert it with .astype(bool) for a mask (true = may attend), or give it to --bias");
  }
  if (input.bias.view().defined())
    throw usage_error("--mask: two files of floats; a bias can be given once");
  input.bias = std::move(loaded);
  input.bias_file = file;
}

// Throws usage errors that name the spec.
std::unique_ptr<Mask> mask_from(const std::string& spec, const TensorSource& source) {
  try {
    return make_mask(call_form(spec), source);
  } catch (const Error& error) {
    const bool usage =
        error.code() == ErrorCode::unknown_name || error.code() == ErrorCode::argument;
    if (!usage) throw;
    throw usage_error("--mask " + spec + ": " + error.what(),
                      "besides, file:M.npy reads a mask from a file; in a combination "
                      "boolean(M.npy) does");
  }
}

void read_catalogue_mask(const std::string& spec, MaskInput& input, TensorInput& files) {
  const TensorSource source = [&](std::string_view name) {
    LoadedTensor tensor = files.read(kOption, std::string(name));
    // Lengths are int64. NumPy makes int32 on some systems; the conversion is exact.
    if (tensor.view().dtype == DType::i32) tensor = owned(converted(tensor.view(), DType::i64));
    input.tensors.push_back(std::move(tensor));
    return input.tensors.back().view();
  };
  input.masks.push_back(mask_from(spec, source));
  input.specs.push_back(spec);
}

}  // namespace

void check_masks(const std::vector<std::string>& specs) {
  for (const std::string& spec : specs) {
    if (name_of_spec(spec) == "file") {
      file_of(spec);
    } else {
      mask_from(spec, [](std::string_view) { return TensorView(); });
    }
  }
}

MaskInput read_masks(const std::vector<std::string>& specs, TensorInput& files) {
  MaskInput input;
  for (const std::string& spec : specs) {
    const std::string name = name_of_spec(spec);
    if (name == "file") {
      read_file_mask(spec, input, files);
    } else {
      read_catalogue_mask(spec, input, files);
    }
  }
  for (const auto& mask : input.masks) input.pointers.push_back(mask.get());
  return input;
}

}  // namespace rapt::cli

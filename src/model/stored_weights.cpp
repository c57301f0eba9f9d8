#include "model/stored_weights.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "checkpoint/open_tensors.h"
#include "io/quoted.h"
#include "nn/training/convert.h"
#include "rapt/float16.h"

namespace rapt::model {
namespace {

bool is_weight_type(const std::optional<DType>& dtype, bool takes_f64) {
  return dtype && *dtype <= DType::f16 && (takes_f64 || *dtype != DType::f64);
}

double stored_number(const TensorView& view, int64_t i) {
  switch (view.dtype) {
    case DType::f32:
      return static_cast<const float*>(view.data)[i];
    case DType::f64:
      return static_cast<const double*>(view.data)[i];
    case DType::bf16:
      return static_cast<float>(static_cast<const BFloat16*>(view.data)[i]);
    default:
      return static_cast<float>(static_cast<const Float16*>(view.data)[i]);
  }
}

// The type of a weight in products that are computed in f32 or bf16.
DType multiplied_type(const StoredTensor& stored, DType computed) {
  if (computed == DType::bf16) return DType::bf16;
  return *stored.dtype == DType::f64 ? DType::f32 : *stored.dtype;
}

std::string_view stored_name(const StoredTensor* tensor) { return tensor->name; }

LoadedTensor own(Tensor tensor) {
  const TensorView view = tensor.view();
  return {std::move(tensor), view};
}

}  // namespace

StoredWeights::StoredWeights(const std::string& folder, const std::string& prefix, bool takes_f64)
    : takes_f64_(takes_f64) {
  std::tie(file_, path_) = checkpoint::open_tensors(folder);
  const auto begins = [&](const StoredTensor& t) { return t.name.starts_with(prefix); };
  if (std::ranges::any_of(file_.tensors, begins)) prefix_ = prefix;
  for (const StoredTensor& tensor : file_.tensors) by_name_.push_back(&tensor);
  std::ranges::sort(by_name_, {}, stored_name);
  used_.resize(file_.tensors.size());
}

const StoredTensor* StoredWeights::lookup(std::string_view name) const {
  const auto at = std::ranges::lower_bound(by_name_, name, {}, stored_name);
  return at == by_name_.end() || (*at)->name != name ? nullptr : *at;
}

const StoredTensor& StoredWeights::find(const std::string& name,
                                        std::initializer_list<int64_t> shape) {
  return find_whole(prefix_ + name, shape);
}

const StoredTensor& StoredWeights::find_whole(const std::string& name,
                                              std::initializer_list<int64_t> shape) {
  const StoredTensor* const stored = lookup(name);
  if (stored == nullptr) fail("the tensor '" + escaped(name) + "' is missing");
  if (!std::ranges::equal(stored->shape, shape))
    fail("'" + escaped(name) + "': expected the shape " +
         to_string(Shape(shape.begin(), shape.size())) + " by config.json, got " +
         to_string(Shape(stored->shape.data(), stored->shape.size())));
  if (!is_weight_type(stored->dtype, takes_f64_))
    fail("'" + escaped(name) + "': expected F32, BF16" + (takes_f64_ ? ", F16 or F64" : " or F16") +
         ", got " + stored->type);
  used_[static_cast<size_t>(stored - file_.tensors.data())] = true;
  return *stored;
}

void StoredWeights::refuse_additional(
    const std::function<bool(std::string_view)>& is_ignored) const {
  for (size_t i = 0; i < used_.size(); ++i) {
    const std::string& name = file_.tensors[i].name;
    if (!used_[i] && !is_ignored(name))
      fail("the model has no tensor '" + escaped(name) + "'; expected the config of these tensors");
  }
}

void StoredWeights::fail(const std::string& what) const {
  throw Error(ErrorCode::format, path_text(path_) + ": " + what);
}

LoadedTensor load_weight(const StoredTensor& stored, DType computed) {
  LoadedTensor loaded = load(stored);
  const DType type = multiplied_type(stored, computed);
  if (*stored.dtype == type) return loaded;
  Tensor copy(type, loaded.view().dims());
  nn::convert(loaded.view(), copy.view());
  return own(std::move(copy));
}

int64_t copied_bytes(const StoredTensor& stored, DType computed) {
  const DType type = multiplied_type(stored, computed);
  if (*stored.dtype == type) return memory_of(stored);
  return stored.bytes / size_of(*stored.dtype) * size_of(type);
}

void copy_numbers(const StoredTensor& stored, float plus, std::span<float> to) {
  const LoadedTensor loaded = load(stored);
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(stored_number(loaded.view(), static_cast<int64_t>(i)));
    if (plus != 0) to[i] += plus;  // keeps the sign of a zero
  }
}

}  // namespace rapt::model

#include "rapt/nn/state_dict.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/tensor_memory.h"
#include "nn/training/convert.h"

namespace rapt::nn {
namespace {

constexpr size_t kNone = SIZE_MAX;

// What load_tensors() complains about, in the order of LoadReport and Error codes.
struct Mismatches {
  std::vector<std::string> missing, additional, twice, shapes, dtypes, overlaps;
};

bool converts(DType from, DType to) {
  return from == to || (from <= DType::f16 && to <= DType::f16);
}

bool same_shape(const TensorView& a, const TensorView& b) {
  const Shape x = a.dims(), y = b.dims();
  return a.rank == b.rank && std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// The tensor of `given` for each target, or kNone.
std::vector<size_t> match(std::span<const NamedView> targets, std::span<const NamedView> given,
                          const std::string& prefix, Mismatches& found) {
  std::unordered_map<std::string, size_t> by_name;
  std::vector<bool> wanted(given.size(), false);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].name.starts_with(prefix) && !by_name.emplace(given[i].name, i).second)
      found.twice.push_back(given[i].name);
  std::vector<size_t> source(targets.size(), kNone);
  for (size_t t = 0; t < targets.size(); ++t) {
    const std::string name = prefix + targets[t].name;
    const auto at = by_name.find(name);
    if (at == by_name.end()) {
      found.missing.push_back(name);
    } else if (wanted[at->second]) {
      throw Error(ErrorCode::argument, "two tensors to load into are named " + targets[t].name);
    } else {
      source[t] = at->second, wanted[at->second] = true;
    }
  }
  for (const auto& [name, i] : by_name)
    if (!wanted[i]) found.additional.push_back(name);
  std::sort(found.additional.begin(), found.additional.end());
  return source;
}

void check_pair(const NamedView& target, const NamedView& given, Mismatches& found) {
  const TensorView &to = target.view, &from = given.view;
  if (!from.defined() || !same_shape(from, to))
    found.shapes.push_back(given.name + " is " +
                           (from.defined() ? to_string(from.dims()) : "absent") + ", expected " +
                           to_string(to.dims()));
  else if (!converts(from.dtype, to.dtype))
    found.dtypes.push_back(given.name + " is " + name_of(from.dtype) + ", expected " +
                           name_of(to.dtype));
  else if (!from.empty() && !from.data)
    throw Error(ErrorCode::argument, given.name + " has elements but a null data pointer");
  else
    check_alignment(given.name.c_str(), from);
  check_output_tensor(target.name.c_str(), to, to.dims(), to.dtype);
}

// Sources that reach into the memory of a target, unless they are that target.
void check_overlaps(std::span<const NamedView> targets, std::span<const NamedView> given,
                    const std::vector<size_t>& source, Mismatches& found) {
  struct Extent {
    Bytes bytes;
    size_t target;
  };
  std::vector<Extent> extents;
  for (size_t t = 0; t < targets.size(); ++t)
    if (const Bytes bytes = extent_of("a tensor", targets[t].view); bytes.begin < bytes.end)
      extents.push_back({bytes, t});
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.bytes.begin < b.bytes.begin; });
  for (size_t t = 0; t < targets.size(); ++t) {
    if (source[t] == kNone) continue;
    const NamedView& from = given[source[t]];
    const Bytes bytes = extent_of(from.name.c_str(), from.view);
    auto at = std::partition_point(extents.begin(), extents.end(),
                                   [&](const Extent& e) { return e.bytes.end <= bytes.begin; });
    for (; at != extents.end() && at->bytes.meets(bytes); ++at)
      if (at->target != t || from.view.data != targets[t].view.data ||
          from.view.dtype != targets[t].view.dtype || !from.view.contiguous() ||
          !targets[t].view.contiguous())
        found.overlaps.push_back(from.name + " shares memory with " + targets[at->target].name);
  }
}

std::string listed(const char* what, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? what : ", ") + name;
  return text.empty() ? text : "; " + text;
}

void reject(const Mismatches& found, bool strict) {
  std::string text;
  if (strict) text = listed("missing: ", found.missing) + listed("additional: ", found.additional);
  text += listed("given twice: ", found.twice);
  const bool names = !text.empty();
  text += listed("shape: ", found.shapes) + listed("dtype: ", found.dtypes) +
          listed("overlap: ", found.overlaps);
  if (text.empty()) return;
  throw Error(names                   ? ErrorCode::argument
              : !found.shapes.empty() ? ErrorCode::shape
              : !found.dtypes.empty() ? ErrorCode::dtype
                                      : ErrorCode::overlap,
              "the tensors do not fit; nothing was loaded" + text);
}

}  // namespace

LoadReport load_tensors(std::span<const NamedView> targets, std::span<const NamedView> given,
                        const LoadOptions& options) {
  Mismatches found;
  const std::vector<size_t> source = match(targets, given, options.prefix, found);
  for (size_t t = 0; t < targets.size(); ++t)
    if (source[t] != kNone) check_pair(targets[t], given[source[t]], found);
  check_overlaps(targets, given, source, found);
  reject(found, options.strict);
  for (size_t t = 0; t < targets.size(); ++t)
    if (source[t] != kNone) convert(given[source[t]].view, targets[t].view);
  return {std::move(found.missing), std::move(found.additional)};
}

}  // namespace rapt::nn

#include "check/spec/mask_spec.h"

#include <algorithm>
#include <charconv>

#include "rapt/catalogue.h"

namespace check {
namespace {

std::string anchor_text(rapt::Anchor anchor) {
  return rapt::kAnchorNames[static_cast<int>(anchor)];
}

std::string listed(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : ",") + argument;
  return text.empty() ? "" : "(" + text + ")";
}

// The offset of `index` in a tensor that is aligned with its last dimensions.
int64_t offset_of(const TensorView& t, std::span<const int64_t> leading, int64_t i, int64_t j) {
  int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 1) continue;
    const int from_right = t.rank - 1 - d;
    const int64_t at = from_right == 0 ? j
                       : from_right == 1
                           ? i
                           : leading[leading.size() - static_cast<size_t>(from_right) + 1];
    offset += at * t.strides[d];
  }
  return offset;
}

// The mask as text for the library; a tensor is named by its index in `tensors`.
std::string library_text(const MaskSpec& mask, std::vector<TensorView>& tensors) {
  const auto named = [&](const TensorView& view) {
    tensors.push_back(view);
    return "t" + std::to_string(tensors.size() - 1);
  };
  switch (mask.kind) {
    case MaskSpec::causal:
      return "causal(" + anchor_text(mask.anchor) + "," + std::to_string(mask.offset) + ")";
    case MaskSpec::window:
      return "window(" + std::to_string(mask.left) + "," + std::to_string(mask.right) + "," +
             anchor_text(mask.anchor) + ")";
    case MaskSpec::prefix:
      return "prefix(" + std::to_string(mask.length) + ")";
    case MaskSpec::prefix_values:
      return "prefix(lengths=" + named(mask.values) + ")";
    case MaskSpec::lengths:
      return "lengths(" + named(mask.values) + ")";
    case MaskSpec::boolean:
      return "boolean(" + named(mask.values) + ")";
    case MaskSpec::documents:
    case MaskSpec::documents_by_starts: {
      const std::string queries = named(mask.values);
      return (mask.kind == MaskSpec::documents ? "documents(" : "documents_by_starts(") + queries +
             "," + named(mask.key_values) + ")";
    }
    default: {
      std::string text = mask.kind == MaskSpec::all   ? "and("
                         : mask.kind == MaskSpec::any ? "or("
                                                      : "not(";
      for (size_t p = 0; p < mask.parts.size(); ++p)
        text += (p > 0 ? "," : "") + library_text(mask.parts[p], tensors);
      return text + ")";
    }
  }
}

}  // namespace

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

Dims default_length_dims(const Dims& leading) {
  return leading.empty() ? Dims{} : Dims{leading.front()};
}

Dims default_boolean_dims(int64_t q_len, int64_t k_len) { return {q_len, k_len}; }

bool MaskSpec::holds_tensor() const {
  return (kind >= prefix_values && kind <= documents_by_starts) ||
         std::ranges::any_of(parts, &MaskSpec::holds_tensor);
}

bool MaskSpec::operator==(const MaskSpec& o) const {
  return kind == o.kind && anchor == o.anchor && offset == o.offset && left == o.left &&
         right == o.right && length == o.length && count == o.count && density == o.density &&
         dims == o.dims && parts == o.parts;
}

void MaskSpec::draw(Random& random, int64_t q_len, int64_t k_len, std::vector<Tensor>& owner) {
  const auto tensor = [&](DType dtype, const Dims& shape) {
    owner.emplace_back(dtype, shape);
    return owner.back().view();
  };
  if (kind == lengths || kind == prefix_values) {
    values = tensor(DType::i64, dims);
    for_each_index(dims, [&](auto index) {
      set(values, index, static_cast<double>(random.between(0, k_len)));
    });
  } else if (kind == boolean) {
    values = tensor(DType::boolean, dims);
    for_each_index(dims, [&](auto index) { set(values, index, random.chance(density) ? 1 : 0); });
    // Some rows have no key.
    if (dims.size() >= 2 && dims[dims.size() - 2] > 2)
      for_each_index(dims, [&](auto index) {
        if (index[index.size() - 2] == 2) set(values, index, 0);
      });
  } else if (kind == documents) {
    // Half of them packed one after the other, half of them in any order.
    const bool sorted = random.chance(0.5);
    const auto ids = [&](int64_t n) {
      Dims drawn;
      for (int64_t i = 0; i < n; ++i) drawn.push_back(random.between(0, count - 1));
      if (sorted) std::ranges::sort(drawn);
      const TensorView view = tensor(DType::i64, {n});
      for (int64_t i = 0; i < n; ++i)
        set(view, Dims{i}, static_cast<double>(drawn[static_cast<size_t>(i)]));
      return view;
    };
    values = ids(q_len);
    key_values = ids(k_len);
  }
  if (kind == documents_by_starts) {
    const auto starts = [&](int64_t n) {
      Dims drawn = {0, n};
      for (int64_t d = 1; d < count; ++d) drawn.push_back(random.between(0, n));
      std::ranges::sort(drawn);
      const TensorView view = tensor(DType::i64, {count + 1});
      std::ranges::copy(drawn, static_cast<int64_t*>(view.data));
      return view;
    };
    values = starts(q_len);
    key_values = starts(k_len);
  }
  for (MaskSpec& part : parts) part.draw(random, q_len, k_len, owner);
}

bool MaskSpec::allowed(const PairPlace& place) const {
  const int64_t i = place.i, j = place.j;
  // 128 bits, so that offsets near the limits of int64 cannot overflow.
  using Wide = __int128;
  const Wide here =
      Wide{i} + (anchor == rapt::Anchor::bottom_right ? place.k_len - place.q_len : 0);
  const auto part_allows = [&](const MaskSpec& part) { return part.allowed(place); };
  switch (kind) {
    case causal:
      return j <= here + offset;
    case window:
      return (left < 0 || j >= here - left) && (right < 0 || j <= here + right);
    case prefix:
      return j < length;
    case lengths:
    case prefix_values: {
      int64_t at = 0;
      for (int d = 0; d < values.rank; ++d)
        if (values.shape[d] != 1) at += place.index[static_cast<size_t>(d)] * values.strides[d];
      return static_cast<double>(j) < element_at(values, at);
    }
    case boolean:
      return element_at(values, offset_of(values, place.index, i, j)) != 0;
    case documents:
      return element_at(values, i * values.strides[0]) ==
             element_at(key_values, j * key_values.strides[0]);
    case documents_by_starts: {
      // The number of starts at or before a position; equal for a query and a key of one document.
      const auto document = [](const TensorView& starts, int64_t position) {
        int64_t before = 0;
        for (int64_t d = 0; d < starts.shape[0]; ++d)
          before += element_at(starts, d * starts.strides[0]) <= static_cast<double>(position);
        return before;
      };
      return document(values, i) == document(key_values, j);
    }
    case all:
      return std::ranges::all_of(parts, part_allows);
    case any:
      return std::ranges::any_of(parts, part_allows);
    default:
      return !part_allows(parts.front());
  }
}

std::unique_ptr<rapt::Mask> MaskSpec::make() const {
  std::vector<TensorView> tensors;
  const std::string text = library_text(*this, tensors);
  return rapt::make_mask(text, [&](std::string_view name) {
    return tensors.at(static_cast<size_t>(std::stoi(std::string(name.substr(1)))));
  });
}

std::string to_string(const MaskSpec& mask, const Dims& leading, int64_t q_len, int64_t k_len) {
  const auto anchored = [&](std::vector<std::string> arguments) {
    if (mask.anchor != rapt::Anchor::top_left) arguments.push_back(anchor_text(mask.anchor));
    return listed(arguments);
  };
  const auto part_text = [&](const MaskSpec& part) {
    const std::string text = to_string(part, leading, q_len, k_len);
    return part.kind == MaskSpec::all || part.kind == MaskSpec::any ? "(" + text + ")" : text;
  };
  switch (mask.kind) {
    case MaskSpec::causal:
      return "causal" + anchored(mask.offset == 0
                                     ? std::vector<std::string>{}
                                     : std::vector<std::string>{std::to_string(mask.offset)});
    case MaskSpec::window:
      return "window" + anchored({std::to_string(mask.left), std::to_string(mask.right)});
    case MaskSpec::prefix:
      return "prefix(" + std::to_string(mask.length) + ")";
    case MaskSpec::prefix_values:
    case MaskSpec::lengths: {
      const std::string name = mask.kind == MaskSpec::lengths ? "lengths" : "prefix";
      return mask.dims == default_length_dims(leading) ? name
                                                       : name + "(" + to_string(mask.dims) + ")";
    }
    case MaskSpec::boolean: {
      std::vector<std::string> arguments;
      if (mask.density != MaskSpec{}.density) arguments.push_back(number_text(mask.density));
      if (mask.dims != default_boolean_dims(q_len, k_len))
        arguments.push_back(to_string(mask.dims));
      return "boolean" + listed(arguments);
    }
    case MaskSpec::documents:
      return "documents(" + std::to_string(mask.count) + ")";
    case MaskSpec::documents_by_starts:
      return "documents_by_starts(" + std::to_string(mask.count) + ")";
    case MaskSpec::negation:
      return "!" + part_text(mask.parts.front());
    default: {
      std::string text;
      for (const MaskSpec& part : mask.parts)
        text += (text.empty() ? "" : mask.kind == MaskSpec::all ? "&" : "|") + part_text(part);
      return text;
    }
  }
}

}  // namespace check

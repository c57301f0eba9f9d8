// Prints a descriptor in its canonical form.
#include "check/problem/descriptor.h"

#include <algorithm>

#include "check/problem/parse_normalizer.h"

namespace check {
namespace {

std::string side_text(const Side& side) {
  if (side.repeated < 0) return name_of(side.layout);
  const std::string broadcast = "broadcast(" + std::to_string(side.repeated) + ")";
  return side.layout == Layout::dense ? broadcast
                                      : std::string(name_of(side.layout)) + "+" + broadcast;
}

bool is_plain(const Side& side) { return side.layout == Layout::dense && side.repeated < 0; }

std::string layouts_text(const Descriptor& d) {
  const bool bias_plain = !d.has_bias || is_plain(d.bias);
  if (is_plain(d.query) && is_plain(d.key) && is_plain(d.value) && bias_plain) return "";
  const auto same = [&](const Side& side) {
    return side.layout == d.query.layout && side.repeated == d.query.repeated;
  };
  const bool bias_same = !d.has_bias || (d.bias.layout == d.query.layout && d.bias.repeated < 0);
  if (same(d.key) && same(d.value) && bias_same) return ":layout=" + side_text(d.query);
  std::string text =
      ":layout=" + side_text(d.query) + "," + side_text(d.key) + "," + side_text(d.value);
  if (!bias_plain) text += "," + side_text(d.bias);
  return text;
}

std::string masks_text(const Descriptor& d) {
  std::string text;
  for (const MaskSpec& mask : d.masks) {
    const std::string one = to_string(mask, d.leading, d.q_len, d.k_len);
    // An "or" alone needs no brackets; an "and" does, as a bare "&" separates masks.
    const bool bare =
        mask.kind != MaskSpec::all && (mask.kind != MaskSpec::any || d.masks.size() == 1);
    text += (text.empty() ? ":mask=" : "&") + (bare ? one : "(" + one + ")");
  }
  return text;
}

std::string bias_text(const Descriptor& d) {
  std::vector<std::string> items;
  if (d.bias_dims != Dims{d.q_len, d.k_len}) items.push_back(to_string(d.bias_dims));
  if (d.excluded_by_bias != 0) items.push_back(number_text(d.excluded_by_bias));
  if (d.bias_dtype) items.push_back(rapt::name_of(*d.bias_dtype));
  if (d.bias_first) items.push_back("before");
  std::string text = ":bias";
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "=" : ",") + items[i];
  return text;
}

std::string captures_text(const Captures& c) {
  std::string text;
  if (c.weights) {
    std::string inside;
    if (!c.weights->rows.empty())
      inside = to_string(c.weights->rows);
    else if (c.weights->begin != 0 || c.weights->end >= 0)
      inside = std::to_string(c.weights->begin) + ".." + std::to_string(c.weights->end);
    if (!c.weights->heads.empty())
      inside += (inside.empty() ? "heads=" : ",heads=") + to_string(c.weights->heads);
    text += ":weights" + (inside.empty() ? "" : "(" + inside + ")");
  }
  if (c.map) {
    text += ":map(" + std::to_string(c.map->rows) + "," + std::to_string(c.map->columns);
    if (c.map->pooling != Pooling::mean)
      text += std::string(",") + kPoolingNames[static_cast<int>(c.map->pooling)];
    if (!c.map->heads.empty()) text += ",heads=" + to_string(c.map->heads);
    text += ")";
  }
  if (c.top_k > 0) text += ":top_k(" + std::to_string(c.top_k) + ")";
  if (c.entropy) text += ":entropy";
  if (c.received) text += ":received";
  return text;
}

std::string backward_text(const BackwardWanted& b) {
  std::string text;
  const auto add = [&](bool wanted, const char* name) {
    if (wanted) text += (text.empty() ? ":backward=" : ",") + std::string(name);
  };
  add(b.d_lse, "lse");
  add(b.f32, "f32");
  add(b.two_passes, "two");
  return text;
}

std::string shape_text(const Descriptor& d, int64_t kv_heads) {
  std::string text;
  const size_t rank = d.leading.size();
  if (rank == 2) text = "b" + std::to_string(d.leading.front());
  if (rank > 2) text = to_string(Dims(d.leading.begin(), d.leading.end() - 1));
  if (rank > 0) text += "h" + std::to_string(d.leading.back());
  if (rank > 0 && kv_heads != d.leading.back()) text += "/" + std::to_string(kv_heads);
  text += "q" + std::to_string(d.q_len) + "k" + std::to_string(d.k_len) + "d" +
          std::to_string(d.head_dim);
  if (d.value_dim != d.head_dim) text += "v" + std::to_string(d.value_dim);
  return text;
}

}  // namespace

std::string to_string(const Descriptor& d) {
  // "h4/2" if key and value agree, and differ from the output in the heads only.
  const Dims& key = d.key.leading;
  Dims shared = d.leading;
  if (!shared.empty() && key.size() == shared.size() && key == d.value.leading && key.back() > 0 &&
      shared.back() % key.back() == 0 && std::equal(key.begin(), key.end() - 1, shared.begin()))
    shared.back() = key.back();
  std::string text = shape_text(d, shared.empty() ? 0 : shared.back());
  if (d.dtype != DType::f32 || d.output_dtype) text += std::string(":") + rapt::name_of(d.dtype);
  if (d.output_dtype) text += std::string(">") + rapt::name_of(*d.output_dtype);
  if (d.query.leading != d.leading) text += ":query=" + to_string(d.query.leading);
  if (d.key.leading != shared) text += ":key=" + to_string(d.key.leading);
  if (d.value.leading != shared) text += ":value=" + to_string(d.value.leading);
  text += layouts_text(d);
  text += masks_text(d);
  if (d.has_bias) text += bias_text(d);
  if (d.scale) text += ":scale=" + number_text(*d.scale);
  for (size_t s = 0; s < d.scores.size(); ++s)
    text += (s == 0 ? ":score=" : ",") + to_string(d.scores[s], d.leading);
  if (d.rows.any()) text += ":rows=" + to_string(d.rows);
  if (d.relative.any()) text += ":relative=" + to_string(d.relative, d.leading);
  if (d.normalizer != Normalizer()) text += ":norm=" + to_string(d.normalizer);
  if (!d.method.empty()) text += ":method=" + d.method;
  if (d.precision == rapt::Precision::fma) text += ":precision=fma";
  if (d.precision == rapt::Precision::fast) text += ":precision=fast";
  if (d.invariant) text += ":invariant";
  if (d.packed > 0) text += ":packed=" + std::to_string(d.packed);
  if (d.cache) text += ":cache=" + to_string(*d.cache);
  if (d.dropout > 0) text += ":dropout=" + number_text(d.dropout);
  if (d.dropout_seed != 0) text += "," + std::to_string(d.dropout_seed);
  text += captures_text(d.captures);
  text += backward_text(d.backward);
  if (d.magnitude != 1) text += ":magnitude=" + number_text(d.magnitude);
  if (d.keys != Keys::drawn) text += std::string(":keys=") + kKeysNames[static_cast<int>(d.keys)];
  for (size_t e = 0; e < d.elements.size(); ++e)
    text += (e == 0 ? ":set=" : ",") + to_string(d.elements[e]);
  if (d.seed != 0) text += ":seed=" + std::to_string(d.seed);
  return text;
}

std::string example_text(const rapt::Declaration& variant, size_t example) {
  const std::string inside = variant.examples.empty() ? "" : variant.examples[example];
  return variant.name + (inside.empty() ? "" : "(" + inside + ")");
}

int64_t Descriptor::heads() const {
  int64_t heads = 1;
  for (const int64_t length : leading) heads *= length;
  return heads;
}

double Descriptor::keys_of_head() const {
  return static_cast<double>(k_len) * static_cast<double>(cache && packed > 0 ? packed : 1);
}

double Descriptor::work() const {
  double heads = 1;
  for (const int64_t length : leading) heads *= static_cast<double>(length);
  return heads * static_cast<double>(q_len) * static_cast<double>(k_len) *
         static_cast<double>(head_dim + value_dim + 8);
}

Dims dims_of(InputTensor tensor, const Descriptor& d) {
  const auto dims = [](const Dims& leading, std::initializer_list<int64_t> behind) {
    Dims all = leading;
    all.insert(all.end(), behind);
    return all;
  };
  const auto of_keys = [&](const Side& side, int64_t dim) {
    Dims all = dims(side.leading, {d.k_len, dim});
    if (d.cache && d.packed > 0) all.insert(all.begin(), d.packed);
    return all;
  };
  switch (tensor) {
    case InputTensor::query:
      return dims(d.query.leading, {d.q_len, d.head_dim});
    case InputTensor::key:
      return of_keys(d.key, d.head_dim);
    case InputTensor::value:
      return of_keys(d.value, d.value_dim);
    case InputTensor::bias:
      return d.has_bias ? d.bias_dims : Dims{};
    case InputTensor::d_output:
      return dims(d.leading, {d.q_len, d.value_dim});
    case InputTensor::d_lse:
      return d.backward.d_lse ? dims(d.leading, {d.q_len}) : Dims{};
    case InputTensor::d_weights:
      break;
  }
  if (!d.captures.weights) return {};
  const WeightsWanted& w = *d.captures.weights;
  const int64_t rows = !w.rows.empty() ? static_cast<int64_t>(w.rows.size())
                                       : (w.end < 0 ? d.q_len : w.end) - w.begin;
  return dims(w.heads.empty() ? d.leading : Dims{static_cast<int64_t>(w.heads.size())},
              {rows, d.k_len});
}

void set_leading(Descriptor& descriptor, const Dims& leading) {
  descriptor.leading = descriptor.query.leading = descriptor.key.leading =
      descriptor.value.leading = leading;
}

std::optional<Dims> broadcast_of(const Dims& query, const Dims& key, const Dims& value) {
  Dims result(std::max({query.size(), key.size(), value.size()}), 1);
  for (size_t from_right = 0; from_right < result.size(); ++from_right) {
    const auto own = [&](const Dims& dims) {
      return from_right < dims.size() ? dims[dims.size() - 1 - from_right] : 1;
    };
    const int64_t q = own(query), k = own(key), v = own(value);
    const int64_t length = q != 1 ? q : k != 1 ? k : v;
    for (const int64_t one : {q, k, v}) {
      const bool group = from_right == 0 && one > 0 && length % one == 0;
      if (one != length && one != 1 && !group) return std::nullopt;
    }
    result[result.size() - 1 - from_right] = length;
  }
  return result;
}

}  // namespace check

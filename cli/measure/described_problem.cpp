#include "cli/measure/described_problem.h"

#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// The bytes of the tensors that a mask reads.
double bytes_of(const check::MaskSpec& mask, const check::Descriptor& d) {
  double bytes = 0;
  for (const check::MaskSpec& part : mask.parts) bytes += bytes_of(part, d);
  for (const check::Dims& dims : mask.shapes(d.q_len, d.k_len))
    bytes += count_of(dims, 1, size_of(mask.tensor_dtype()));
  return bytes;
}

}  // namespace

check::Descriptor parse_problem(const std::string& text) {
  try {
    return check::parse_descriptor(text);
  } catch (const Error& error) {
    throw usage_error("'" + text + "': " + error.what(),
                      "for example b2h8/2q1024k1024d64:bf16:mask=window(256,0)&lengths");
  }
}

double count_of(const check::Dims& dims, int64_t rows, int64_t columns) {
  double count = static_cast<double>(rows) * static_cast<double>(columns);
  for (const int64_t length : dims) count *= static_cast<double>(length);
  return count;
}

double count_per_query(const check::Descriptor& d) {
  const check::Captures& c = d.captures;
  return static_cast<double>(d.value_dim + 2 + 2 * c.top_k) +
         (c.weights ? static_cast<double>(d.k_len) : 0.0);
}

double bytes_of_inputs(const check::Descriptor& d) {
  double count = count_of(dims_of(check::InputTensor::query, d), 1, 1);
  for (const auto tensor : {check::InputTensor::key, check::InputTensor::value}) {
    check::Dims dims = dims_of(tensor, d);
    if (d.cache && d.cache->page_keys > 0) dims.front() += check::kMostUnusedPages;
    // The rows of a cache are also kept as they are found there, and one sequence after the other.
    count += count_of(dims, 1, 1) * (d.cache ? 2 : 1);
  }
  if (d.has_bias) count += count_of(d.bias_dims, 1, 1);
  for (size_t part = 0; part < check::RelativeSpec::kParts; ++part)
    if (d.relative.tables[part].there)
      count += count_of(d.relative.dims(part, d.head_dim, d.value_dim), 1, 1);
  double bytes = count * static_cast<double>(size_of(d.dtype)) * 4;
  for (const check::MaskSpec& mask : d.masks) bytes += bytes_of(mask, d);
  return bytes;
}

}  // namespace rapt::cli

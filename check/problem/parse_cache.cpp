#include "check/problem/parse_cache.h"

#include <algorithm>

namespace check {
namespace {

CacheSpec parse_pages(Scanner& in, const Descriptor& problem) {
  CacheSpec cache;
  const size_t begin = in.position();
  cache.page_keys = in.integer(1, kMaxLength, "the number of keys of a page");
  if (problem.k_len % cache.page_keys != 0) {
    in.go_back_to(begin);
    in.fail("expected a number of keys that divides " + std::to_string(problem.k_len));
  }
  while (in.take(",")) {
    if (!cache.circular && in.take("circular"))
      cache.circular = true;
    else if (!cache.shared && in.take("shared"))
      cache.shared = true;
    else
      in.fail("expected circular and shared, each once");
  }
  in.expect(")");
  return cache;
}

bool has_sequences(const Descriptor& d) {
  if (d.packed > 0) return true;
  return std::ranges::all_of(std::initializer_list<const Side*>{&d.query, &d.key, &d.value},
                             [&](const Side* side) {
                               return !side->leading.empty() && side->leading.front() > 0 &&
                                      side->leading.size() == d.leading.size() &&
                                      side->leading.front() == d.leading.front();
                             });
}

// Checks that the elements of a cache fit 64 bits: pages of all sequences, and unused ones of the
// length of a sequence at most.
void check_cache_size(Scanner& in, const Descriptor& d, InputTensor tensor) {
  Dims dims = dims_of(tensor, d);
  dims.front() += kMostUnusedPages;
  std::ranges::replace(dims, 0, 1);
  try {
    rapt::element_count(dims);
  } catch (const rapt::Error&) {
    in.fail("expected a cache whose size fits into 64 bits");
  }
}

// Whether queries alone are rotated, at the last positions of their sequence.
bool rows_fit(const RowSpec& rows) {
  return !rows.cosine &&
         (!rows.rotary || (!rows.rotary->turns_key && rows.rotary->query == CountedRows{}));
}

}  // namespace

CacheSpec parse_cache(Scanner& in, const Descriptor& problem) {
  if (problem.k_len == 0) in.fail("expected a problem with keys");
  if (in.take("linear")) return {};
  if (in.take("circular")) return {.circular = true};
  if (!in.take("pages(")) in.fail("expected linear, circular or pages(N)");
  return parse_pages(in, problem);
}

void check_beside_cache(Scanner& in, const Descriptor& d) {
  if (!has_sequences(d))
    in.fail("expected packed, or one first leading dimension of query, key and value");
  if (d.has_bias || std::ranges::any_of(d.masks, &MaskSpec::holds_tensor))
    in.fail("expected neither a bias nor lengths, boolean or documents beside cache");
  if (d.captures.map) in.fail("expected no map beside cache");
  if (d.captures.received && d.packed > 0)
    in.fail("expected no received beside packed sequences in a cache");
  if (!rows_fit(d.rows)) in.fail("expected no rows but rotary(query-only) beside cache");
  if (d.relative.any()) in.fail("expected no relative beside cache");
  if (d.backward != BackwardWanted()) in.fail("expected no backward beside cache");
  if (d.key.repeated >= 0 || d.value.repeated >= 0)
    in.fail("expected no broadcast() of key and value beside cache");
  for (const InputTensor tensor : {InputTensor::key, InputTensor::value})
    check_cache_size(in, d, tensor);
}

}  // namespace check

// Documents by starts. Bound: nothing, because all heads have the same starts.
#include "rapt/mask/documents_by_starts.h"

#include <algorithm>
#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<DocumentsByStarts, &DocumentsByStarts::query_starts>(
        "query_starts", "int64 [documents + 1]: the first query of each document, then q_len",
        kAnyNumber, {}, true),
    parameter<DocumentsByStarts, &DocumentsByStarts::key_starts>(
        "key_starts", "int64 [documents + 1]: the first key of each; default: as the queries"),
};

struct Starts {
  const int64_t* data;
  int64_t stride, documents;

  explicit Starts(const TensorView& tensor) noexcept
      : data(static_cast<const int64_t*>(tensor.data)),
        stride(tensor.strides[0]),
        documents(tensor.shape[0] - 1) {}

  int64_t begin(int64_t document) const noexcept { return data[document * stride]; }
  int64_t end(int64_t document) const noexcept { return data[(document + 1) * stride]; }

  // The document that holds a position: the last one that begins at or before it.
  int64_t document_of(int64_t position) const noexcept {
    int64_t below = 0, above = documents;  // begin(below) <= position < begin(above)
    while (above - below > 1) {
      const int64_t middle = below + (above - below) / 2;
      (begin(middle) <= position ? below : above) = middle;
    }
    return below;
  }
};

const TensorView& key_starts_of(const DocumentsByStarts& mask) noexcept {
  return mask.key_starts.defined() ? mask.key_starts : mask.query_starts;
}

// Is one of `positions` within [begin, end)?
bool any_within(Positions positions, int64_t begin, int64_t end) noexcept {
  if (begin >= end || positions.start >= end || positions.last() < begin) return false;
  return positions[queries_before(begin - positions.start, positions)] < end;
}

// `what` names mask and tensor. It becomes a string for a message only, because a call with the
// caller's memory allocates nothing.
void check_starts(const char* what, const TensorView& starts, int64_t length) {
  if (!starts.defined())
    throw Error(ErrorCode::argument, std::string(what) + ": no tensor was given");
  if (starts.dtype != DType::i64)
    throw Error(ErrorCode::dtype,
                std::string(what) + ": expected i64, got " + name_of(starts.dtype));
  if (starts.rank != 1 || starts.shape[0] < 2)
    throw Error(ErrorCode::shape, std::string(what) + ": shape " + to_string(starts.dims()) +
                                      "; expected [documents + 1] of at least one document");
  if (!starts.data) throw Error(ErrorCode::argument, std::string(what) + ": null pointer");
  const Starts s(starts);
  if (s.begin(0) != 0)
    throw Error(ErrorCode::argument, std::string(what) + ": the first start is " +
                                         std::to_string(s.begin(0)) + "; expected 0");
  for (int64_t d = 0; d < s.documents; ++d)
    if (s.end(d) < s.begin(d))
      throw Error(ErrorCode::argument, std::string(what) + ": start " + std::to_string(d + 1) +
                                           " is " + std::to_string(s.end(d)) + ", below the " +
                                           std::to_string(s.begin(d)) +
                                           " before it; expected starts that never decrease");
  if (s.begin(s.documents) != length)
    throw Error(ErrorCode::argument,
                std::string(what) + ": the last is " + std::to_string(s.begin(s.documents)) +
                    "; expected the length of the sequence, " + std::to_string(length));
}

}  // namespace

const Declaration DocumentsByStarts::kDeclaration = {
    "documents_by_starts",
    "a query attends to the keys of its own document (packed sequences, by starts)",
    "flash-attention cu_seqlens_q and cu_seqlens_k", kParameters};

void DocumentsByStarts::check(Shape, int64_t q_len, int64_t k_len) const {
  check_starts("mask documents_by_starts: query_starts", query_starts, q_len);
  if (!key_starts.defined()) {
    if (q_len != k_len)
      throw Error(ErrorCode::argument, "mask documents_by_starts: starts for " +
                                           std::to_string(q_len) + " queries and " +
                                           std::to_string(k_len) +
                                           " keys cannot be the same; give key_starts, too");
    return;
  }
  check_starts("mask documents_by_starts: key_starts", key_starts, k_len);
  if (key_starts.shape[0] != query_starts.shape[0])
    throw Error(ErrorCode::shape,
                "mask documents_by_starts: " + std::to_string(query_starts.shape[0] - 1) +
                    " documents of queries but " + std::to_string(key_starts.shape[0] - 1) +
                    " of keys; a document that is empty on one side needs a "
                    "start there, too");
}

void DocumentsByStarts::bind(const Head&, BoundMask*) const noexcept {}

KeyRange DocumentsByStarts::key_range(const BoundMask&, Positions queries) const noexcept {
  const Starts query(query_starts), key(key_starts_of(*this));
  return {key.begin(query.document_of(queries.start)), key.end(query.document_of(queries.last()))};
}

Cover DocumentsByStarts::cover(const BoundMask&, Positions queries, Positions keys) const noexcept {
  const Starts query(query_starts), key(key_starts_of(*this));
  const int64_t first = query.document_of(queries.start), last = query.document_of(queries.last());
  const int64_t first_key = key.document_of(keys.start), last_key = key.document_of(keys.last());
  if (!any_within(keys, key.begin(first), key.end(last)) ||
      !any_within(queries, query.begin(first_key), query.end(last_key)))
    return Cover::none;
  return first == last && first_key == last_key ? Cover::all : Cover::some;
}

void DocumentsByStarts::exclude(const BoundMask&, Positions queries, Positions keys,
                                uint64_t* bits) const noexcept {
  const Starts query(query_starts), key(key_starts_of(*this));
  for (int64_t j = 0; j < keys.count;) {
    const int64_t document = key.document_of(keys[j]);
    const uint64_t same = low_bits(queries_before(query.end(document) - queries.start, queries)) &
                          ~low_bits(queries_before(query.begin(document) - queries.start, queries));
    for (; j < keys.count && keys[j] < key.end(document); ++j) bits[j] &= same;
  }
}

}  // namespace rapt

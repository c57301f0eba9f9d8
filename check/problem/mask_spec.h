#pragma once
// A mask as plain data: a tree of and, or and not over the masks of the catalogue.
//
// Its meaning is a predicate for one pair (query, key), which shares no code with the library; the
// library's mask is made from its text. Tensors of values (lengths, booleans, document ids) are
// drawn from the case's seed and owned by the case.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "check/spec/pair_place.h"
#include "check/tensors/arrays.h"
#include "rapt/mask/mask.h"

namespace check {

struct MaskSpec {
  enum Kind : uint8_t {
    causal,
    window,
    prefix,         // of one length for all
    prefix_values,  // of a length per batch
    lengths,
    boolean,
    documents,            // by ids
    documents_by_starts,  // contiguous documents
    all,                  // and
    any,                  // or
    negation,
  };

  Kind kind = causal;
  rapt::Anchor anchor = rapt::Anchor::top_left;  // causal, window
  int64_t offset = 0;                            // causal
  int64_t left = -1, right = -1;                 // window
  int64_t length = 0;                            // prefix
  int64_t count = 0;                             // the number of documents
  double density = 0.5;                          // boolean: the share of true pairs
  Dims dims;  // lengths and prefix_values: the first leading dimensions; boolean: broadcast
  std::vector<MaskSpec> parts;  // of all and any; the one of negation

  // Set by draw(). Boolean for a boolean mask, else i64.
  TensorView values;      // lengths, pairs; ids or starts of the queries' documents
  TensorView key_values;  // ids or starts of the keys' documents

  bool holds_tensor() const;  // itself or a part
  bool operator==(const MaskSpec& other) const;

  // Draws the values of the tensors of this tree; they are appended to `owner`.
  void draw(Random& random, int64_t q_len, int64_t k_len, std::vector<Tensor>& owner);

  bool allowed(const PairPlace& place) const;

  // The library's mask; it refers to the tensors of this tree, which must outlive it.
  std::unique_ptr<rapt::Mask> make() const;
};

// The text of a mask in a descriptor; dimensions that follow from `q_len` and `k_len` are left out.
std::string to_string(const MaskSpec& mask, const Dims& leading, int64_t q_len, int64_t k_len);

// The dimensions that lengths, prefix and boolean have when none are written.
Dims default_length_dims(const Dims& leading);
Dims default_boolean_dims(int64_t q_len, int64_t k_len);

// Shortest text that reads back as the same number.
std::string number_text(double value);

}  // namespace check

#pragma once
// A problem as one line of text, from which the same tensors come on every machine.
//
//   b2h8/2q1024k1024d64:bf16:mask=window(256,0)&lengths
//
//   descriptor = shape { ":" field }           fields in any order, each at most once
//   shape      = [ leading ] "q" N "k" N "d" N [ "v" N ]
//                                              queries, keys, head_dim, value_dim (default: d)
//   leading    = [ "b" N ] "h" heads | "b" N | dims [ "h" heads ]      default: none, rank 2
//                                              the last leading dimension is that of the heads
//   heads      = N [ "/" N ]                   of query / of key and value
//   dims       = "[" [ N { "," N } ] "]"
//   field      = dtype [ ">" dtype ]           f32 (default), f64, bf16, f16; > f32: the output
//              | "query=" dims | "key=" dims | "value=" dims
//                                              leading dimensions of one input, if they differ
//                                              from those of the shape: 1 or absent where the
//                                              input is broadcast
//              | "layout=" side [ "," side "," side [ "," side ] ]
//                                              of all; or of query, key, value and bias
//              | "mask=" masks
//              | "bias" [ "=" item { "," item } ]
//                                              items: dims (default [q,k]), the part that is -inf
//                                              (default 0), a dtype (default: the query's), before:
//                                              it is added before the score functions (requires
//                                              score=)
//              | "scale=" X | "score=" score { "," score }
//              | "rows=" change { "+" change }   of query and key, before they are multiplied
//              | "relative=" table { "+" table } [ "(" N { "," item } ")" ]
//                                              N distances; items: where they start, and how
//                                              they are counted
//              | "norm=" name [ "(" argument { "," argument } ")" ]
//                                              as rapt::make_normalizer() reads it, with a number
//                                              in the place of a tensor
//              | "method=" name [ "(" argument { "," argument } ")" ]
//                                              as rapt::make_method() reads it, without tensors
//              | "precision=" ( "automatic" | "fma" | "fast" ) | "invariant"
//              | "packed=" N                   N sequences, of drawn lengths
//              | "cache=" cache                sequences of drawn lengths, from 0 to the number of
//                                              keys of the shape, lie in a cache. Without packed,
//                                              the first leading dimension is that of the sequences
//              | "dropout=" P [ "," N ]         probability, in [0, 1), and seed (default 0)
//              | "weights" [ "(" [ rows ] [ "," ] [ heads_wanted ] ")" ]
//              | "map(" N "," N [ "," pool ] [ "," heads_wanted ] ")"
//              | "top_k(" N ")" | "entropy" | "received"
//              | "backward=" item { "," item }
//                                              of the backward pass: lse (it has a gradient), f32
//                                              (16-bit inputs have gradients in f32), two (passes)
//              | "magnitude=" X                of query, key and value (default 1)
//              | "keys=" ( "equal" | "rising" )
//                                              the keys of a head are its first one; or are j /
//                                              k_len times it, so that scores rise or fall evenly
//              | "set=" element { "," element }
//                                              elements with a chosen number
//              | "seed=" N                     of all values (default 0)
//   score      = name [ "(" item { "," item } ")" ]
//                                              as rapt::make_score() reads it, without tensors:
//                                              softcap(30), alibi(signed,bottom-right). item: an
//                                              argument, or dims, those of the tensors: the last
//                                              leading dimensions, or 1 for each, then how many
//                                              numbers a head has, if it has several. Default: the
//                                              heads, and 32
//   cache      = "linear" | "circular"         a page for each sequence; key 0 may be in any slot
//              | "pages(" N [ ",circular" ] [ ",shared" ] ")"
//                                              pages of N keys, which divides the number of keys,
//                                              by a block table; shared: it begins with the same
//                                              pages for all sequences
//   change     = "cosine" [ "(" X ")" ]        X: the least length (default 1e-12)
//              | "rotary" [ "(" turn { "," turn } ")" ]          after cosine
//   turn       = "interleaved" | "dims=" N | "theta=" X | "query=" counted | "key=" counted
//              | "magnitude=" X | "query-only"     the keys are already rotated
//   counted    = N [ ( "+" | "-" ) N "i" ]     row i's position (default 0+1i; with a cache, the
//                                              last query is at the position of the last key)
//   table      = ( "keys" | "queries" | "values" | "content" | "position" ) [ dims ]
//                                              keys, queries, values: tables with a row per
//                                              distance; content, position: biases
//                                              (rapt/relative.h). dims: the leading dimensions,
//                                              default: the heads. The table "values" has the
//                                              layout of value, all others that of key
//   item       = "center=" N                   the row of distance 0 (default: the middle)
//              | "log=" N ".." N | anchor      exact distances, and the one of the last row
//   element    = tensor "[" { N "," } ( N | "*" ) "]=" ( "nan" | "inf" | "-inf" | X )
//                                              its index; *: all of the last dimension. In a
//                                              dimension of stride 0 it stands for all. Keys and
//                                              values of packed sequences in a cache have the
//                                              sequence in front
//   tensor     = "query" | "key" | "value" | "bias" | "d_output" | "d_lse" | "d_weights"
//   side       = layout [ "+broadcast(" N ")" ] | "broadcast(" N ")"
//                                              a dimension of stride 0
//   layout     = dense | padded | transposed | negative | strided | interleaved
//   rows       = N ".." N | dims               [a, b), or chosen rows
//   heads_wanted = "heads=" dims               flat indices into the leading dimensions
//   pool       = mean | max | sum
//   masks      = or_list                       an "&" outside of all brackets separates masks of
//   or_list    = and_list { "|" and_list }     the option, (a&b) is one mask of its own
//   and_list   = factor { "&" factor }
//   factor     = "!" factor | "(" or_list ")" | mask
//   mask       = name [ "(" item { "," item } ")" ]
//                                              as rapt::make_mask() reads it, without tensors:
//                                              causal(bottom-right,-3). item: an argument; dims of
//                                              the tensors; or the number by which they are drawn:
//                                              boolean(0.25,[1,9]), documents(3). Optional tensors
//                                              are there if dims are: prefix([2]). dims: the last
//                                              of [leading, q, k] for boolean (default: [q,k]),
//                                              the first leading dimensions for others (default:
//                                              that of the batch for lengths, none for documents)
//   anchor     = top-left | bottom-right
//
// Tensors are drawn from the seed. The printed form is canonical: fields in the order above,
// defaults left out, so that equal problems have equal lines, and parsing it gives the same
// problem.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/problem/mask_spec.h"
#include "check/reference/normalizer.h"
#include "check/spec/cache_spec.h"
#include "check/spec/captures.h"
#include "check/spec/element_spec.h"
#include "check/spec/relative_spec.h"
#include "check/spec/row_spec.h"
#include "check/spec/score_spec.h"
#include "check/tensors/arrays.h"
#include "rapt/attention.h"

namespace check {

struct Side {  // one input tensor
  Dims leading;
  Layout layout = Layout::dense;
  int repeated = -1;  // a dimension with stride 0
  bool operator==(const Side&) const = default;
};

// How the keys of a head differ.
enum class Keys : uint8_t {
  drawn,   // at random
  equal,   // not at all: a query's products with them are equal
  rising,  // key j is j / k_len times a drawn key: products rise or fall with j
};
inline constexpr const char* kKeysNames[] = {"drawn", "equal", "rising"};

struct BackwardWanted {  // how the backward pass is called
  bool d_lse = false;
  bool f32 = false;
  bool two_passes = false;
  bool operator==(const BackwardWanted&) const = default;
};

struct Descriptor {
  Dims leading;  // of the output
  Side query, key, value, bias;
  int64_t q_len = 1, k_len = 1, head_dim = 1, value_dim = 1;
  DType dtype = DType::f32;
  std::optional<DType> output_dtype;  // default: dtype
  std::vector<MaskSpec> masks;        // combined by "and", as options.masks
  bool has_bias = false;
  Dims bias_dims;                   // all dimensions
  double excluded_by_bias = 0;      // the part of the bias that is -inf
  std::optional<DType> bias_dtype;  // default: dtype
  bool bias_first = false;          // the bias is added before the scores
  std::optional<double> scale;
  std::vector<ScoreSpec> scores;  // in this order
  RowSpec rows;
  RelativeSpec relative;
  Normalizer normalizer;
  std::string method;  // as rapt::to_string() writes it; "": exact attention
  rapt::Precision precision = rapt::Precision::automatic;
  bool invariant = false;
  int64_t packed = 0;  // sequences; 0: not packed
  std::optional<CacheSpec> cache;
  double dropout = 0;  // of weights: the probability
  uint64_t dropout_seed = 0;
  Captures captures;
  BackwardWanted backward;
  double magnitude = 1;
  Keys keys = Keys::drawn;
  std::vector<ElementSpec> elements;  // with a chosen number; a later one wins
  uint64_t seed = 0;

  bool operator==(const Descriptor&) const = default;
  double work() const;  // multiplications
  int64_t heads() const;
  // The keys of all sequences in a head of the output, which the reference looks at for each query.
  double keys_of_head() const;
};

// Throws Error(argument) with the column and what was expected there.
Descriptor parse_descriptor(std::string_view text);

// A score or normaliser with an example of its declaration (0: the usual one): "softcap(30)".
std::string example_text(const rapt::Declaration& variant, size_t example = 0);

std::string to_string(const Descriptor& descriptor);

// The dimensions of a tensor of the problem; none if the problem lacks it. Keys and values of
// packed sequences in a cache: [sequences, ..., k_len, dim].
Dims dims_of(InputTensor tensor, const Descriptor& descriptor);

// Sets the leading dimensions of all inputs and of the bias, for problems made field by field.
void set_leading(Descriptor& descriptor, const Dims& leading);

// The broadcast of all inputs' leading dimensions; none if they do not fit.
std::optional<Dims> broadcast_of(const Dims& query, const Dims& key, const Dims& value);

// The limits of descriptors: far beyond any memory, and small enough that products do not overflow.
inline constexpr int64_t kMaxLength = int64_t{1} << 40;
inline constexpr size_t kMaxText = 4096;
inline constexpr size_t kMaxLeading = 8;
inline constexpr size_t kMaxListed = 1024;  // rows or heads that are named one by one
inline constexpr int kMaxMaskDepth = 16;
inline constexpr int kMaxMaskParts = 64;

}  // namespace check

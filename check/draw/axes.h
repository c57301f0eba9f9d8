#pragma once
// The axes along which problems for laws are drawn, and their values.
//
// Values that the library does not support yet are in kNotBuilt: no problem has them until their
// line is deleted there.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace check {

enum AxisIndex : uint8_t {
  kMaskAxis,
  kDTypeAxis,
  kHeadsAxis,
  kLayoutAxis,
  kCaptureAxis,
  kBiasAxis,
  kScoreAxis,
  kBiasOrderAxis,
  kNormalizerAxis,
  kScaleAxis,
  kSizesAxis,
  kPrecisionAxis,
  kInvariantAxis,
  kPackedAxis,
  kDropoutAxis,
  kRelativeAxis,
  kRowsAxis,
};

struct Axis {
  std::string_view name;
  std::span<const std::string_view> values;
  double at_rest = 0;  // the probability of its first value, with which other code runs
};

namespace axis_values {
inline constexpr std::string_view kMask[] = {"none",    "causal",  "causal(bottom-right)",
                                             "window",  "prefix",  "prefix per batch",
                                             "lengths", "boolean", "documents",
                                             "starts",  "two",     "three",
                                             "and",     "or",      "not",
                                             "tree"};
inline constexpr std::string_view kDType[] = {"f32", "f64", "bf16", "f16", "bf16>f32", "f16>f32"};
inline constexpr std::string_view kHeads[] = {
    "none", "one", "several", "grouped", "one for all", "batch shared", "query shared", "nested"};
inline constexpr std::string_view kLayout[] = {"dense",   "padded",      "transposed", "negative",
                                               "strided", "interleaved", "broadcast",  "mixed"};
inline constexpr std::string_view kCapture[] = {
    "none",    "weights", "weights of rows", "weights chosen", "map mean", "map max",
    "map sum", "top-k",   "entropy",         "received",       "all"};
inline constexpr std::string_view kBias[] = {"none",   "matrix",    "per head", "row",
                                             "column", "with -inf", "f32"};
inline constexpr std::string_view kScore[] = {"none",  "softcap", "head_scale", "log_n",
                                              "alibi", "t5_bias", "kerple_log", "two"};
inline constexpr std::string_view kBiasOrder[] = {"after", "before"};
inline constexpr int64_t kSingleScores = std::size(kScore) - 2;  // without "none" and "two"
inline constexpr std::string_view kNormalizer[] = {
    "softmax",   "softmax_plus_one", "sigmoid", "relu",         "softmax_with_sink",
    "sparsemax", "entmax15",         "entmax",  "top_k_softmax"};
inline constexpr std::string_view kScale[] = {"default", "0", "negative", "large"};
inline constexpr std::string_view kSizes[] = {"tiny",       "lanes", "tiles",        "blocks",
                                              "long query", "wide",  "narrow value", "empty"};
inline constexpr std::string_view kPrecision[] = {"automatic", "fma", "fast"};
inline constexpr std::string_view kInvariant[] = {"no", "yes"};
inline constexpr std::string_view kPacked[] = {"no", "packed"};
inline constexpr std::string_view kDropout[] = {"none", "some"};
inline constexpr std::string_view kRelative[] = {"none", "shaw", "transformer-xl", "deberta",
                                                 "log"};
inline constexpr std::string_view kRows[] = {"none", "rotary", "cosine", "both"};
}  // namespace axis_values

// In the order of AxisIndex.
inline constexpr Axis kAxes[] = {
    {"mask", axis_values::kMask},
    {"dtype", axis_values::kDType},
    {"heads", axis_values::kHeads},
    {"layout", axis_values::kLayout},
    {"capture", axis_values::kCapture},
    {"bias", axis_values::kBias},
    {"score", axis_values::kScore},
    {"bias order", axis_values::kBiasOrder},
    {"normalizer", axis_values::kNormalizer},
    {"scale", axis_values::kScale},
    {"sizes", axis_values::kSizes},
    {"precision", axis_values::kPrecision},
    {"invariant", axis_values::kInvariant},
    {"packed", axis_values::kPacked},
    {"dropout", axis_values::kDropout},
    {"relative", axis_values::kRelative, 0.5},
    {"rows", axis_values::kRows, 0.5},
};
inline constexpr size_t kAxisCount = std::size(kAxes);

// One value of each axis, by its index.
using GridPoint = std::array<uint8_t, kAxisCount>;

struct AxisValue {
  AxisIndex axis;
  std::string_view value;
};

// Values that the library does not support yet.
inline constexpr std::array<AxisValue, 0> kNotBuilt = {};

// Two values that exclude each other.
struct Conflict {
  AxisValue a, b;
  std::string_view why;
};
inline constexpr Conflict kConflicts[] = {
    {{kPackedAxis, "packed"}, {kMaskAxis, "prefix per batch"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kMaskAxis, "lengths"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kMaskAxis, "boolean"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kMaskAxis, "documents"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kMaskAxis, "starts"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "matrix"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "per head"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "row"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "column"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "with -inf"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasAxis, "f32"}, "positions are each sequence's own"},
    {{kPackedAxis, "packed"}, {kBiasOrderAxis, "before"}, "there is no bias"},
    {{kBiasOrderAxis, "before"}, {kBiasAxis, "none"}, "there is nothing to add"},
    {{kBiasOrderAxis, "before"}, {kScoreAxis, "none"}, "there is nothing that it is before"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "weights"}, "rows have keys of different sequences"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "weights of rows"}, "as weights"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "weights chosen"}, "as weights"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "map mean"}, "as weights"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "map max"}, "as weights"},
    {{kPackedAxis, "packed"}, {kCaptureAxis, "map sum"}, "as weights"},
    {{kNormalizerAxis, "softmax_plus_one"},
     {kCaptureAxis, "entropy"},
     "weights are no distribution"},
    {{kNormalizerAxis, "softmax_plus_one"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "softmax_with_sink"},
     {kCaptureAxis, "entropy"},
     "weights are no distribution"},
    {{kNormalizerAxis, "softmax_with_sink"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "sigmoid"}, {kCaptureAxis, "entropy"}, "weights are no distribution"},
    {{kNormalizerAxis, "sigmoid"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "relu"}, {kCaptureAxis, "entropy"}, "weights are no distribution"},
    {{kNormalizerAxis, "relu"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "sparsemax"}, {kCaptureAxis, "entropy"}, "the library refuses it"},
    {{kNormalizerAxis, "sparsemax"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "entmax15"}, {kCaptureAxis, "entropy"}, "the library refuses it"},
    {{kNormalizerAxis, "entmax15"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "entmax"}, {kCaptureAxis, "entropy"}, "the library refuses it"},
    {{kNormalizerAxis, "entmax"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kNormalizerAxis, "top_k_softmax"}, {kCaptureAxis, "entropy"}, "the library refuses it"},
    {{kNormalizerAxis, "top_k_softmax"}, {kCaptureAxis, "all"}, "entropy is among all"},
    {{kRowsAxis, "rotary"}, {kRelativeAxis, "shaw"}, "the library refuses it"},
    {{kRowsAxis, "rotary"}, {kRelativeAxis, "transformer-xl"}, "the library refuses it"},
    {{kRowsAxis, "rotary"}, {kRelativeAxis, "deberta"}, "the library refuses it"},
    {{kRowsAxis, "rotary"}, {kRelativeAxis, "log"}, "the library refuses it"},
    {{kRowsAxis, "cosine"}, {kRelativeAxis, "shaw"}, "the library refuses it"},
    {{kRowsAxis, "cosine"}, {kRelativeAxis, "transformer-xl"}, "the library refuses it"},
    {{kRowsAxis, "cosine"}, {kRelativeAxis, "deberta"}, "the library refuses it"},
    {{kRowsAxis, "cosine"}, {kRelativeAxis, "log"}, "the library refuses it"},
    {{kRowsAxis, "both"}, {kRelativeAxis, "shaw"}, "the library refuses it"},
    {{kRowsAxis, "both"}, {kRelativeAxis, "transformer-xl"}, "the library refuses it"},
    {{kRowsAxis, "both"}, {kRelativeAxis, "deberta"}, "the library refuses it"},
    {{kRowsAxis, "both"}, {kRelativeAxis, "log"}, "the library refuses it"},
    {{kHeadsAxis, "none"}, {kLayoutAxis, "interleaved"}, "there is nothing to interleave"},
    {{kDTypeAxis, "f32"}, {kBiasAxis, "f32"}, "that is \"matrix\""},
    {{kDTypeAxis, "f64"}, {kBiasAxis, "f32"}, "f32 is for 16-bit inputs"},
};

}  // namespace check

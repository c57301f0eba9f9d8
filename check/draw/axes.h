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
  kCacheAxis,
  kDropoutAxis,
  kRelativeAxis,
  kRowsAxis,
  kInputsAxis,
  kMethodAxis,
};

struct Axis {
  std::string_view name;
  std::span<const std::string_view> values;
  double at_rest = 0;  // the probability of its first value, with which other code runs
};

namespace axis_values {
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
inline constexpr std::string_view kBiasOrder[] = {"after", "before"};
inline constexpr std::string_view kScale[] = {"default", "0", "negative", "large"};
inline constexpr std::string_view kSizes[] = {
    "tiny", "lanes", "tiles", "blocks", "long query", "wide", "narrow value", "empty", "decode"};
inline constexpr std::string_view kPrecision[] = {"automatic", "fma", "fast"};
inline constexpr std::string_view kInvariant[] = {"no", "yes"};
inline constexpr std::string_view kPacked[] = {"no", "packed"};
inline constexpr std::string_view kCache[] = {"none", "linear", "circular", "pages",
                                              "shared pages"};
inline constexpr std::string_view kDropout[] = {"none", "some"};
inline constexpr std::string_view kRelative[] = {"none", "shaw", "transformer-xl", "deberta",
                                                 "log"};
inline constexpr std::string_view kRows[] = {"none", "rotary", "cosine", "both"};
// Behind "drawn": keys that differ little, and elements that are not finite or near the end of the
// dtype's range.
inline constexpr std::string_view kInputs[] = {"drawn", "equal keys", "rising keys",
                                               "NaN",   "infinity",   "huge"};
}  // namespace axis_values
// The ending of the value of a mask that has its optional tensors: "causal per batch".
inline constexpr std::string_view kPerBatch = " per batch";
// "none", those of the catalogue, also "NAME per batch" for optional tensors, "two", "three",
// "and", "or", "not", "combined".
std::span<const std::string_view> mask_values();
std::span<const std::string_view> score_values();       // "none", those of the catalogue, "two"
std::span<const std::string_view> normalizer_values();  // those of the catalogue
std::span<const std::string_view> method_values();      // "none", those of the catalogue

// In the order of AxisIndex.
inline const Axis kAxes[] = {
    {"mask", mask_values()},
    {"dtype", axis_values::kDType},
    {"heads", axis_values::kHeads},
    {"layout", axis_values::kLayout},
    {"capture", axis_values::kCapture},
    {"bias", axis_values::kBias},
    {"score", score_values()},
    {"bias order", axis_values::kBiasOrder},
    {"normalizer", normalizer_values()},
    {"scale", axis_values::kScale},
    {"sizes", axis_values::kSizes},
    {"precision", axis_values::kPrecision},
    {"invariant", axis_values::kInvariant},
    {"packed", axis_values::kPacked},
    {"cache", axis_values::kCache, 0.5},
    {"dropout", axis_values::kDropout},
    {"relative", axis_values::kRelative, 0.5},
    {"rows", axis_values::kRows, 0.5},
    {"inputs", axis_values::kInputs, 0.5},
    {"method", method_values(), 0.9},
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

// Whether two values of different axes exclude each other.
bool conflict(size_t axis_a, size_t value_a, size_t axis_b, size_t value_b);

}  // namespace check

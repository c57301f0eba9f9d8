// The declaration of t5_bias; the formula is in the header.
#include "rapt/score/t5_bias.h"

#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    head_parameter<T5Bias, &T5Bias::table>(
        "table", "what each bucket adds [..., heads, buckets], f32 or f64", 1, true),
    parameter<T5Bias, &T5Bias::max_distance>(
        "max_distance", "from here on all distances share a bucket", Range{1, 9007199254740992.0}),
    parameter<T5Bias, &T5Bias::direction>(
        "direction",
        "with both, later keys have buckets of their own (encoder); with past, they share bucket 0 "
        "(decoder)",
        kAnyNumber, kT5DirectionNames),
    parameter<T5Bias, &T5Bias::anchor>("anchor", "which corner of the matrix i = j runs through",
                                       kAnyNumber, kAnchorNames),
};
// 17 is the least max_distance of 32 buckets of the past.
constexpr const char* kExamples[] = {
    "",
    "past,bottom-right",
    "bottom-right",
    "past",
    "max_distance=17,past",
    "max_distance=17,bottom-right",
    "max_distance=33",
    "max_distance=52,past,bottom-right",
};

constexpr int64_t kMostBuckets = 32768;  // 16 bits

}  // namespace

const Declaration T5Bias::kDeclaration = {
    "t5_bias", "a learned number per head and bucket of distances",
    "Raffel et al. 2019, arXiv:1910.10683", kParameters, kExamples};

void T5Bias::check() const {
  const int64_t buckets = table.rank > 0 ? table.shape[table.rank - 1] : 0;
  const int64_t directions = direction == T5Direction::both ? 2 : 1;
  const auto fail = [](ErrorCode code, const std::string& message) {
    throw Error(code, "score t5_bias: " + message);
  };
  if (buckets > kMostBuckets || buckets < 2 * directions || buckets % directions != 0)
    fail(ErrorCode::shape, "table " + to_string(table.dims()) + " has " + std::to_string(buckets) +
                               " buckets; expected " +
                               (directions == 2 ? "an even number of at least 4" : "at least 2") +
                               ", at most 32768");
  if (const int64_t exact = buckets / directions / 2; max_distance <= exact)
    fail(ErrorCode::argument, "max_distance is " + std::to_string(max_distance) +
                                  "; expected more than the " + std::to_string(exact) +
                                  " distances that have a bucket each");
}

}  // namespace rapt

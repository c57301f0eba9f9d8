// The declaration of kerple_log; the formula is in the header.
#include "rapt/score/kerple_log.h"

namespace rapt {
namespace {

// A rate times the largest distance, 2^53, is finite in f32.
constexpr Range kRates{0, 1e20};

constexpr Parameter kParameters[] = {
    head_parameter<KerpleLog, &KerpleLog::amplitudes>(
        "amplitudes", "what multiplies the logarithm, per head [..., heads], f32 or f64", 0, true,
        kAnyNumber, 1),
    head_parameter<KerpleLog, &KerpleLog::rates>(
        "rates", "what multiplies the distance, per head [..., heads], f32 or f64, at least 0", 0,
        true, kRates, 1),
    parameter<KerpleLog, &KerpleLog::anchor>(
        "anchor", "which corner of the matrix i = j runs through", kAnyNumber, kAnchorNames),
};
constexpr const char* kExamples[] = {"", "bottom-right"};

}  // namespace

const Declaration KerpleLog::kDeclaration = {
    "kerple_log", "a penalty per head that grows with the logarithm of the distance",
    "Chi et al. 2022, arXiv:2205.09921, equation 4", kParameters, kExamples};

}  // namespace rapt

// The declaration of alibi; the formula is in the header.
#include "rapt/score/alibi.h"

#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    head_parameter<Alibi, &Alibi::slopes>(
        "slopes", "a slope per head [..., heads], f32 or f64; absent: the paper's", 0),
    parameter<Alibi, &Alibi::heads>(
        "heads", "use the paper's slopes for this many heads; 0: for the heads of the call",
        Range{0, 1 << 20}),
    parameter<Alibi, &Alibi::distance>("distance", "-m |i - j|, or +m (j - i)", kAnyNumber,
                                       kAlibiDistanceNames),
    parameter<Alibi, &Alibi::anchor>("anchor", "which corner of the matrix i = j runs through",
                                     kAnyNumber, kAnchorNames),
};
constexpr const char* kExamples[] = {"", "bottom-right", "signed", "signed,bottom-right"};

}  // namespace

const Declaration Alibi::kDeclaration = {
    "alibi", "a penalty per head for the distance of query and key",
    "Press et al. 2021, arXiv:2108.12409", kParameters, kExamples};

void Alibi::check(Shape leading) const {
  if (slopes.defined() && heads != 0)
    throw Error(
        ErrorCode::argument,
        "score alibi has slopes and a number of heads for the paper's; expected one of them");
  const int64_t there = leading.empty() ? 1 : leading.back();
  if (heads != 0 && heads < there)
    throw Error(ErrorCode::argument,
                "score alibi: the paper's slopes for " + std::to_string(heads) +
                    " heads, of which there are " + std::to_string(there) + "; expected heads = " +
                    std::to_string(there) + " or more, or 0 for as many as there are");
}

}  // namespace rapt

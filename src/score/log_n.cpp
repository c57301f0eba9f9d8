// The declaration of log_n; the formula is in the header.
#include "rapt/score/log_n.h"

#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<LogN, &LogN::count>(
        "count", "the n of ln n: the number of all keys, or of those up to the query's position",
        kAnyNumber, kLogCountNames),
    parameter<LogN, &LogN::length>(
        "length", "the training length, at which the factor is 1 (0: the factor is ln n)",
        Range{0, 9007199254740992.0}),
};
constexpr const char* kExamples[] = {"", "position", "16", "position,16", "2", "position,2"};

}  // namespace

const Declaration LogN::kDeclaration = {"log_n", "scores times the logarithm of the number of keys",
                                        "Chiang & Cholak 2022, arXiv:2202.12172, section 5.3",
                                        kParameters, kExamples};

void LogN::check() const {
  if (length == 1)
    throw Error(ErrorCode::argument,
                "score log_n: length is 1, whose logarithm is 0; expected 0 or at least 2");
}

}  // namespace rapt

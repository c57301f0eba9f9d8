// The declaration of top_k_softmax; its maths is in the header.
#include "rapt/normalizer/top_k_softmax.h"

namespace rapt {
namespace {

constexpr Range kCounts{1, kAnyInteger.max};
constexpr Parameter kParameters[] = {parameter<TopKSoftmax, &TopKSoftmax::k>(
    "k", "scores of a row that get a weight, and those that equal the last", kCounts, {}, true)};
constexpr const char* kExamples[] = {"16", "1", "2", "3", "5", "100"};

}  // namespace

const Declaration TopKSoftmax::kDeclaration = {
    "top_k_softmax", "softmax over the k largest scores of each row, exactly 0 for all others",
    "Gupta et al. 2021, arXiv:2106.06899; Zhao et al. 2019, arXiv:1912.11637", kParameters,
    kExamples};

}  // namespace rapt

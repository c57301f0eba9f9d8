// The declaration of softmax_with_sink; its maths is in the header.
#include "rapt/normalizer/softmax_with_sink.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {head_parameter<SoftmaxWithSink, &SoftmaxWithSink::sinks>(
    "sinks", "a logit per head [..., heads], f32 or f64", 0, true)};
constexpr const char* kExamples[] = {"1", "0", "-3", "20", "-inf"};

}  // namespace

const Declaration SoftmaxWithSink::kDeclaration = {
    "softmax_with_sink", "softmax with a learned logit per head more in the denominator",
    "OpenAI 2025, gpt-oss, arXiv:2508.10925, section 2.2", kParameters, kExamples};

}  // namespace rapt

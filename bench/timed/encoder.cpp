// Speed of a trained encoder on a text of all its positions, one thread:
//
//   bench_encoder DIR [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// DIR: a folder that load_encoder() reads. Operations are those of the matrix products. Each token
// takes 4 F^2 + 2 F H + 2 n F multiplications and as many additions in a layer (F features, H
// hidden ones, n tokens). "maps" is the forward pass with a map of 64 x 64 cells and the 8 largest
// weights of each row, of all heads. How it is measured: timed_case.h. bench/peers/encoders.py runs
// it beside transformers.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rapt/model/encoder_model.h"
#include "timed/timed_case.h"

namespace {

using rapt::model::EncoderCaptures;
using rapt::model::EncoderModel;
using rapt::model::EncoderSpec;

constexpr int64_t kMapSide = 64, kTopKeys = 8;

double flops_of_text(const EncoderSpec& spec) {
  const auto tokens = static_cast<double>(spec.longest());
  const auto features = static_cast<double>(spec.features);
  const double products =
      4 * features * features + 2 * features * static_cast<double>(spec.hidden_features);
  return 2 * static_cast<double>(spec.layers) * tokens * (products + 2 * tokens * features);
}

// The model, and a text of tokens that differ.
struct EncoderProblem {
  explicit EncoderProblem(const std::string& folder) : model(rapt::model::load_encoder(folder)) {
    int64_t next = 0;
    for (int64_t i = 0; i < model.spec.longest(); ++i)
      ids.push_back(next = (next + 7919) % model.spec.vocabulary);
    context.threads = 1;
  }

  EncoderModel model;
  std::vector<int64_t> ids;
  rapt::Context context;
};

bench::CaseMaker encoder_case(const std::string& name, const std::string& folder,
                              const EncoderSpec& spec, const EncoderCaptures& captures) {
  const double flops = flops_of_text(spec);
  return {name + " n=" + std::to_string(spec.longest()), flops, [=] {
            const auto problem = std::make_shared<EncoderProblem>(folder);
            return bench::TimedCase{
                .name = "", .flops = flops, .call = [=] {
                  (void)encode(problem->model, {problem->ids, {}, {}}, problem->context, captures);
                }};
          }};
}

bool measure_encoder(const bench::Arguments& arguments) {
  if (arguments.rest.size() != 1)
    throw rapt::Error(rapt::ErrorCode::argument, "expected the folder of one encoder");
  const std::string& folder = arguments.rest[0];
  const EncoderSpec spec = rapt::model::load_encoder_spec(folder);
  EncoderCaptures captures;
  const int64_t side = std::min(kMapSide, spec.longest());
  captures.map = rapt::MapRequest{.rows = side, .columns = side};
  captures.top_k = std::min(kTopKeys, spec.longest());
  captures.on_layer = [](int64_t, rapt::AttentionResult&) {};
  return bench::measure_cases(
      arguments, "encoder",
      {encoder_case("forward", folder, spec, {}), encoder_case("maps", folder, spec, captures)});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_encoder DIR [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_encoder, bench::Descriptors::taken);
}

#include "cli/train/training_sample.h"

#include "cli/generate/default_sampling.h"
#include "cli/process/interrupt.h"
#include "rapt/generation/generator.h"
#include "rapt/text/stream_decoder.h"

namespace rapt::cli {
namespace {

int64_t first_sample_token(const training::TrainingData& data) {
  try {
    return data.tokenizer().encode("\n").at(0);
  } catch (const Error&) {  // no line break among the characters
    for (const training::Tokens& tokens : data.training())
      if (!tokens.empty()) return tokens.front();
    return 0;
  }
}

}  // namespace

std::string training_sample(const training::Trainer& trainer, int64_t length,
                            const Context& context) {
  const text::Tokenizer& tokenizer = trainer.data().tokenizer();
  generation::SamplingOptions sampling = kDefaultSampling;
  sampling.seed = static_cast<uint64_t>(trainer.state().settings.seed);
  const int64_t prompt[] = {first_sample_token(trainer.data())};
  generation::Generator generator(
      trainer.model(),
      {.sampling = sampling, .length = length, .when_full = generation::WhenFull::slide}, prompt,
      context);
  text::StreamDecoder decoder(tokenizer);
  std::string sample;
  while (!interruption().cancelled() && generator.next())
    sample += decoder.next(generator.token(0));
  return sample + decoder.finish();
}

}  // namespace rapt::cli

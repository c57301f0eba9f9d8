// training.json from any bytes. A state that is accepted survives writing and reading.
#include "rapt/training/training_state.h"

#include <cstdint>
#include <cstdlib>

using namespace rapt;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const training::TrainingState state =
        training::read_training_state({reinterpret_cast<const char*>(data), size}, "fuzz");
    training::check_settings(state.settings);
    require(state.step >= 0 && state.step <= state.settings.steps);
    const std::string text = training::write_training_state(state);
    require(training::write_training_state(training::read_training_state(text)) == text);
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
  }
  return 0;
}

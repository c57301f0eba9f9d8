// training.json: what is written is read, and what is not one is rejected by its key.
#include "rapt/training/training_state.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace rapt::training;

TrainingState some_state() {
  return {.step = 100,
          .evaluated_step = 75,
          .text_hash = 0x00cbf29ce4842223,
          .best = BestEvaluation{.step = 50, .loss = 1.0 / 3},
          .settings = {.learning_rate = 0.1 + 0.2,
                       .seed = INT64_MAX,
                       .dtype = DType::bf16,
                       .evaluation = EvaluationWindows::consecutive}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TrainingState, IsReadAsItWasWritten) {
  const std::string text = write_training_state(some_state());
  const TrainingState state = read_training_state(text);
  EXPECT_EQ(write_training_state(state), text);
  EXPECT_EQ(state.step, 100);
  EXPECT_EQ(state.evaluated_step, 75);
  EXPECT_EQ(state.text_hash, 0x00cbf29ce4842223u);
  ASSERT_TRUE(state.best);
  EXPECT_EQ(state.best->loss, 1.0 / 3);
  EXPECT_EQ(state.settings.learning_rate, 0.1 + 0.2);
  EXPECT_EQ(state.settings.seed, INT64_MAX);
  EXPECT_EQ(state.settings.dtype, DType::bf16);
  EXPECT_EQ(state.settings.evaluation, EvaluationWindows::consecutive);
  EXPECT_FALSE(read_training_state(write_training_state({})).best);
}

TEST(TrainingState, RejectsWhatIsNone) {
  const std::string text = write_training_state(some_state());
  const auto malformed = [&](const std::string& json, const std::string& fragment) {
    laws::expect_error(ErrorCode::format, {"training.json", fragment},
                       [&] { read_training_state(json); });
  };
  malformed("", "malformed");
  malformed("[]", "expected an object");
  malformed("{}", "schema is absent");
  malformed(text.substr(0, text.size() / 2), "malformed");
  malformed(replaced(text, "\"step\": 100", "\"step\": -1"), "step is '-1'");
  malformed(replaced(text, "\"step\": 100", "\"step\": 2001"), "step is 2001; expected 0 to 2000");
  malformed(replaced(text, "\"step\": 100", "\"steps\": 100"), "step is absent");
  malformed(replaced(text, "\"evaluated_step\": 75", "\"evaluated_step\": 101"),
            "expected 0 to 100");
  malformed(replaced(text, "00cbf29c", "0cbf29c"), "16 hexadecimal digits");
  malformed(replaced(text, "00cbf29c", "-0cbf29c"), "16 hexadecimal digits");
  malformed(replaced(text, "\"batch\": 12", "\"batch\": 0"), "settings.batch is 0");
  malformed(replaced(text, "\"batch\": 12", "\"batch\": 1.5"), "batch is '1.5'");
  malformed(replaced(text, "\"bf16\"", "\"f16\""), "settings.dtype is 'f16'");
  malformed(replaced(text, "\"seed\"", "\"seeds\""), "settings.seed is absent");
  malformed(std::string(2 << 20, ' '), "expected at most");
  malformed(std::string(100, '[') + std::string(100, ']'), "deep");
  laws::expect_error(ErrorCode::unsupported, {"schema", "rapt.training/1"}, [&] {
    read_training_state(replaced(text, "rapt.training/1", "rapt.training/2"));
  });
}

}  // namespace

#pragma once
// Records as lines of JSON, for log.jsonl:
//
//   {"schema":"rapt.train/1","record":"step","step":1,"loss":4.2,"learning_rate":1e-05,
//    "gradient_norm":2.1}
//   {"schema":"rapt.train/1","record":"evaluation","step":250,"loss":2.4,"loss_per_byte":2.4,
//    "tokens":15360,"best":true}
//
// each on one line. Lines hold no times, so a run that was resumed writes the log of one that was
// not.
#include <string>
#include <string_view>

#include "rapt/training/trainer.h"

namespace rapt::training {

// With the end of the line.
std::string log_line(const StepRecord& record);
std::string log_line(const EvaluationRecord& record);

// The part of a log that a checkpoint continues: its first lines, as far as their step is at most
// `step` and they are whole. A killed process may have written more.
std::string_view log_through(std::string_view log, int64_t step);

}  // namespace rapt::training

#pragma once
// The losses of a run over its updates: means over equally many updates each, and the held-out
// loss. However long the run is, there are a few hundred points.
#include <string_view>
#include <vector>

#include "rapt/training/trainer.h"
#include "rapt/viz/chart.h"

namespace rapt::cli {

class LossCurve {
 public:
  // Begins with the records of a log (rapt/training/training_log.h), so that a run that was resumed
  // has the curve of one that was not. Lines that are no records are left out.
  explicit LossCurve(std::string_view log);

  void add(const training::StepRecord& record) { add_update(record.step, record.loss); }
  void add(const training::EvaluationRecord& record) { add_evaluation(record.step, record.loss); }

  // Is there nothing to draw yet?
  bool empty() const { return means_.empty() && held_out_.x.empty(); }
  viz::LineChart chart() const;

 private:
  // A mean of updates, as sums.
  struct Mean {
    double steps = 0, losses = 0;
    int64_t updates = 0;
  };

  void read_line(std::string_view line);
  void add_update(int64_t step, double loss);
  void add_evaluation(int64_t step, double loss);
  void join_pairs();

  int64_t updates_per_mean_ = 1;
  std::vector<Mean> means_;  // all but the last one are complete
  viz::Series held_out_{.name = "held out", .dots = true};
};

}  // namespace rapt::cli

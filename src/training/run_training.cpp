#include "rapt/training/run_training.h"

#include <utility>

#include "io/system_failure.h"

namespace rapt::training {
namespace {

template <class Callback, class... Arguments>
void notify(const Callback& callback, Arguments&&... arguments) {
  if (callback) callback(std::forward<Arguments>(arguments)...);
}

class Run {
 public:
  Run(Trainer& trainer, const std::string& folder, const TrainingCallbacks& callbacks)
      : trainer_(trainer), folder_(folder), callbacks_(callbacks) {}

  TrainingEnd train() {
    try {
      while (!finished()) advance();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::cancelled) throw;
      // A model of first values is not worth a checkpoint.
      if (trainer_.state().step > 0) save(false);
      return TrainingEnd::cancelled;
    }
    return TrainingEnd::finished;
  }

 private:
  bool last_step() const { return trainer_.state().step == trainer_.state().settings.steps; }
  bool finished() const { return last_step() && !trainer_.evaluation_is_due(); }

  // One evaluation with its checkpoint, or one update.
  void advance() {
    if (!trainer_.evaluation_is_due()) return notify(callbacks_.step, trainer_.step());
    const EvaluationRecord record = trainer_.evaluate();
    notify(callbacks_.evaluation, record);
    try {
      save(record.best);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::io || last_step()) throw;
      notify(callbacks_.save_failed, e);
    }
  }

  void save(bool best) {
    save_checkpoint(folder_, trainer_.checkpoint(), best);
    notify(callbacks_.checkpoint, trainer_.state().step);
  }

  Trainer& trainer_;
  const std::string& folder_;
  const TrainingCallbacks& callbacks_;
};

}  // namespace

TrainingEnd run_training(Trainer& trainer, const std::string& folder,
                         const TrainingCallbacks& callbacks) {
  if (trainer.state().step == 0 && has_checkpoint(folder))
    fail_on(folder, "the folder has the checkpoint of a run; resume it, or choose another folder");
  return Run(trainer, folder, callbacks).train();
}

}  // namespace rapt::training

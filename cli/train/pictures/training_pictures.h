#pragma once
// The pictures in the folder of a run: loss.svg and loss.png, and attention-000000.svg and .png
// with the number of updates, before, in the middle of and after training.
#include <string>

#include "cli/train/pictures/loss_curve.h"
#include "cli/train/pictures/window_attention.h"
#include "rapt/context.h"

namespace rapt::cli {

class TrainingPictures {
 public:
  // Goes on with the curve of FOLDER/log.jsonl as far as the present step. Throws Failure(io).
  TrainingPictures(const training::Trainer& trainer, const std::string& folder,
                   const Context& context);

  template <class Record>
  void add(const Record& record) {
    losses_.add(record);
  }

  // Writes what there is to see at the present step, over what was there. Throws Error(io).
  void draw() const;

 private:
  bool attention_is_due() const;
  template <class Picture>
  void write(const std::string& name, const Picture& picture) const;

  const training::Trainer& trainer_;
  const std::string folder_;
  Context context_;
  LossCurve losses_;
  WindowAttention attention_;
};

}  // namespace rapt::cli

#include "cli/train/pictures/training_pictures.h"

#include <fmt/format.h>

#include "cli/train/training_log_file.h"
#include "rapt/io/output_file.h"

namespace rapt::cli {
namespace {

template <class Bytes>
void write_picture_file(const std::string& path, const Bytes& bytes) {
  OutputFile file(path, Overwrite::yes);
  file.write(bytes.data(), std::ssize(bytes));
  file.commit();
}

}  // namespace

TrainingPictures::TrainingPictures(const training::Trainer& trainer, const std::string& folder,
                                   const Context& context)
    : trainer_(trainer),
      folder_(folder),
      context_(context),
      losses_(read_training_log(folder, trainer.state().step)),
      attention_(trainer) {
  context_.cancel = nullptr;
}

void TrainingPictures::draw() const {
  if (!losses_.empty()) write("loss", losses_.chart());
  if (attention_is_due())
    write(fmt::format("attention-{:06}", trainer_.state().step), attention_.heatmap(context_));
}

// At the ends of the run and at the first evaluation of its second half.
bool TrainingPictures::attention_is_due() const {
  const training::TrainingSettings& settings = trainer_.state().settings;
  const int64_t step = trainer_.state().step, interval = settings.evaluation_interval;
  const bool in_the_middle =
      step % interval == 0 && 2 * step >= settings.steps && 2 * (step - interval) < settings.steps;
  return step == 0 || in_the_middle || step == settings.steps;
}

template <class Picture>
void TrainingPictures::write(const std::string& name, const Picture& picture) const {
  write_picture_file(folder_ + "/" + name + ".svg", viz::to_svg(picture));
  write_picture_file(folder_ + "/" + name + ".png", viz::to_png(picture));
}

}  // namespace rapt::cli

// rapt train: trains a language model on texts, or runs an example that needs none.
#include "cli/commands.h"
#include "cli/train/examples/train_examples.h"
#include "cli/train/text_run.h"
#include "cli/train/train_arguments.h"

namespace rapt::cli {
namespace {

bool wants_example(const CLI::App& app) { return app.get_option("--example")->count() > 0; }

void check_train(const CLI::App& app, const TrainArguments& a) {
  if (!wants_example(app)) {
    text_run_settings(a);
    return;
  }
  refuse_options_of_texts(app);
  check_train_example(a);
}

}  // namespace

Command add_train(CLI::App& root) {
  CLI::App* app = root.add_subcommand("train", "train a language model on texts; three examples");
  const auto a = arguments_of<TrainArguments>(*app);
  add_train_options(*app, *a);
  app->footer(
      "What is not given is chosen from the text, the time and the speed of this machine, which\n"
      "takes a second to measure. The folder gets checkpoints of Hugging Face transformers,\n"
      "best and latest among them, log.jsonl, and pictures: loss.svg, and attention-000000.svg of "
      "a\n"
      "head after so many updates, each also as .png. Ctrl-C saves a checkpoint and ends with "
      "130.\n"
      "A run that is resumed has the bits of one that was not interrupted.\n\n"
      "  poems  111 poems of this project, 66,759 characters\n"
      "  verse  2,000,000 characters by a grammar; no loss per byte can be below 0.2601\n\n"
      "  tiny   multi-head attention learns to return its input: the loss of three runs with an\n"
      "         embedding that is frozen, trained with it, or drawn again in each epoch, as a\n"
      "         common tutorial has it. The first two must fall 500 times by epoch 80\n"
      "  copy   a Transformer of two blocks learns to copy 16 symbols behind a separator. It must\n"
      "         copy 1,000 of 1,000 unseen sequences, one symbol after the other. --steps are "
      "200\n"
      "  reformer-copy\n"
      "         a block with LSH attention learns to repeat 127 symbols: Reformer's task at a\n"
      "         quarter of its size. With 8 hashes 99 % must be right. --steps are 500\n\n"
      "Exit code 1 if an example misses its goal. The numbers depend on the instruction set, not\n"
      "on the threads.\n\n"
      "  rapt train notes.txt --budget 3m\n"
      "  rapt train --text poems --output poems --steps 500 --layers 4 --features 128\n"
      "  rapt train notes.txt --resume model\n"
      "  rapt train --example copy --seed 2");
  return {app, [app, a] { check_train(*app, *a); },
          [app, a] {
            if (wants_example(*app)) return run_train_example(*a);
            run_on_texts(*a);
          }};
}

}  // namespace rapt::cli

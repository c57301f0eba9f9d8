#pragma once
// Sizes of a model and of its training, from the text and the time that there is.
//
//   operations = seconds flops_per_second share_of_updates
//
// * Tokens are those of byte-level BPE: one for each 16 bytes of text, at most 4,096, and in longer
//   texts one for each 2 KiB, rounded down to a power of two. Nearly all words of a small text are
//   then tokens, so that the model writes words. Characters are the tokens of texts below 16 KiB.
// * The model is the largest of a list that can make 4,000 updates with these operations. That
//   of nanoGPT's recipe for a CPU is on the list.
// * The model has at most 12 parameters for each token of the training parts, or is the least on
//   the list. nanoGPT's larger recipe for tiny Shakespeare has 10.7, and over-fits from a third of
//   its run on.
// * A run reads the training parts at most 30 times, for the same reason: that recipe has its least
//   held-out loss after 28 times. The checkpoint `best` keeps the least one.
// * Blocks are long, because the first tokens of each window are predicted from little. Models of
//   96 and 128 features have one window in an update: many small updates learn more in the same
//   time than few large ones. The least model, which small texts have, reads eight short windows.
// * The learning rate follows from the features of the model.
//
// The layout is that of Qwen3, with a gated network of 8/3 features (Shazeer 2020,
// arXiv:2002.05202, section 2: as many parameters as four times the features without a gate).
#include <cstdint>

#include "rapt/nn/language_model.h"
#include "rapt/training/training_data.h"
#include "rapt/training/training_settings.h"

namespace rapt::training {

inline constexpr int64_t kLeastTextBytes = 200;          // of a text to train on
inline constexpr int64_t kLeastPlannedVocabulary = 512;  // of byte-level BPE, where it is chosen

// The text and the time that there is.
struct SizeRequest {
  int64_t text_bytes = 0;       // of all texts
  int64_t characters = 0;       // different ones
  double seconds = 0;           // of the whole run
  double flops_per_second = 0;  // training_flops() of a probe, divided by the seconds of its step
  // Of the tokenizer, once it is learned; 0: estimated from the bytes.
  int64_t vocabulary = 0;  // tokens that it knows
  int64_t tokens = 0;      // of all texts
};

// What fits them.
struct ChosenSizes {
  TokenizerChoice tokenizer;    // for learn_tokenizer()
  nn::LanguageModelSpec model;  // `vocabulary`: what the tokenizer may have at most
  TrainingSettings settings;    // for the Trainer
};

// The tokenizer for a text of so many bytes.
TokenizerChoice choose_tokenizer(int64_t text_bytes);

// Features of a gated network of a model with `features`: the multiple of 32 at or above 8/3.
int64_t gated_features(int64_t features);

// Sets the updates of a run, and what follows from them and from the batch: a tenth of them, at
// most 100, warms up, and there are at most 8 evaluations, of 16 to 240 windows. `steps`: 1 or
// more.
void set_steps(TrainingSettings& settings, int64_t steps);

// Updates of a model that a request has the time for, at most so many that the training parts are
// read 30 times. `flops_per_second` should be of these sizes: models differ.
int64_t affordable_steps(const SizeRequest& request, const nn::LanguageModelSpec& spec,
                         int64_t batch, int64_t block);

// The learning rate that suits a model with `features`: the less, the more features it has. It is
// that of the first model of the list with as many features, or of the last one.
double largest_learning_rate(int64_t features);

// Sets the largest learning rate, and the last one to a hundredth of it.
void set_learning_rate(TrainingSettings& settings, double largest);

// Floating-point operations of one update: 6 per parameter of a matrix and token, those of the head
// included, and 6 layers heads head_dim block per token for the causal scores and outputs
// (Chowdhery et al. 2022, arXiv:2204.02311, appendix B, halved for the mask).
double training_flops(const nn::LanguageModelSpec& spec, int64_t batch, int64_t block);

// Throws Error(argument) for a request that is not positive and finite, for fewer than 200 bytes of
// text, and for a negative `vocabulary` or `tokens`.
ChosenSizes choose_sizes(const SizeRequest& request);

}  // namespace rapt::training

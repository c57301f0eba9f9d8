#include "rapt/nn/cross_entropy.h"

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/losses/targets.h"
#include "nn/row_tasks.h"
#include "nn/rowwise/token_rows.h"

namespace rapt::nn {
namespace {

// Operations per logit, about.
constexpr double kLogitWork = 20;

void check_logits(const TensorView& logits, const TensorView& targets,
                  const CrossEntropyOptions& options) {
  check_input("logits", logits, logits.dims(), logits.dtype);
  if (logits.rank < 1) throw Error(ErrorCode::shape, "logits has rank 0; expected [..., classes]");
  check_targets(targets, leading_dims(logits), last_dim(logits), options);
}

}  // namespace

void check_targets(const TensorView& targets, Shape rows, int64_t classes,
                   const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw Error(
        ErrorCode::argument,
        "label_smoothing is " + std::to_string(options.label_smoothing) + "; expected 0 to 1");
  if (options.reduction > Reduction::sum)
    throw Error(ErrorCode::argument,
                "reduction " + std::to_string(static_cast<int>(options.reduction)) + " is unknown");
  check_tokens("targets", targets, rows, classes, options.ignore_index);
}

double loss_factor(const TensorView& targets, const CrossEntropyOptions& options) {
  if (options.reduction == Reduction::sum) return 1;
  return 1 / static_cast<double>(count_tokens(targets, options.ignore_index));
}

double reduce_losses(const TensorView& losses, const TensorView& targets,
                     const CrossEntropyOptions& options) {
  constexpr int64_t kBlock = 256;
  const auto* const loss = static_cast<const double*>(losses.data);
  const int64_t rows = losses.count();
  double sum = 0;
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    double block = 0;
    for (int64_t r = begin; r < std::min(rows, begin + kBlock); ++r) block += loss[r];
    sum += block;
  }
  return sum * loss_factor(targets, options);  // of no rows: 0 times infinity is NaN
}

double cross_entropy(const TensorView& logits, const TensorView& targets, const TensorView& lse,
                     const Run& run, const CrossEntropyOptions& options) {
  const Arena::Frame frame(run.scratch);
  if (run.counts()) {
    run.scratch.take(DType::f64, targets.dims());
    return 0;
  }
  check_logits(logits, targets, options);
  check_output("lse", lse, targets.dims(), DType::f64);
  check_apart("lse", lse, "logits", logits);
  check_apart("lse", lse, "targets", targets);
  const TensorView losses = run.scratch.take(DType::f64, targets.dims());
  const int64_t classes = last_dim(logits);
  in_computed_type("logits", logits.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().losses.cross_entropy[static_cast<int>(logits.dtype)];
    for_ranges(run.context, targets.count(), kLogitWork * static_cast<double>(logits.count()),
               [&](int64_t begin, int64_t end) {
                 function({.logits = element_at(logits, begin * classes),
                           .targets = static_cast<const int64_t*>(targets.data) + begin,
                           .rows = end - begin,
                           .classes = classes,
                           .ignore_index = options.ignore_index,
                           .smoothing = options.label_smoothing,
                           .lse = static_cast<double*>(lse.data) + begin,
                           .loss = static_cast<double*>(losses.data) + begin});
               });
  });
  return reduce_losses(losses, targets, options);
}

void cross_entropy_gradient(const TensorView& logits, const TensorView& targets,
                            const TensorView& lse, const TensorView& d_logits, const Run& run,
                            const CrossEntropyOptions& options, double d_loss) {
  if (run.counts()) return;
  check_logits(logits, targets, options);
  check_input("lse", lse, targets.dims(), DType::f64);
  check_output("d_logits", d_logits, logits.dims(), logits.dtype);
  check_same_or_apart("d_logits", d_logits, "logits", logits);
  check_apart("d_logits", d_logits, "targets", targets);
  check_apart("d_logits", d_logits, "lse", lse);
  const int64_t classes = last_dim(logits);
  const double factor = d_loss * loss_factor(targets, options), smoothing = options.label_smoothing;
  in_computed_type("logits", logits.dtype, [&]<class E>() {
    const auto function =
        layer_kernels<E>().losses.cross_entropy_gradient[static_cast<int>(logits.dtype)];
    for_ranges(
        run.context, targets.count(), kLogitWork * static_cast<double>(logits.count()),
        [&](int64_t begin, int64_t end) {
          function({.logits = element_at(logits, begin * classes),
                    .targets = static_cast<const int64_t*>(targets.data) + begin,
                    .lse = static_cast<const double*>(lse.data) + begin,
                    .rows = end - begin,
                    .classes = classes,
                    .ignore_index = options.ignore_index,
                    .factor = static_cast<E>(factor),
                    .of_target = static_cast<E>(factor * (1 - smoothing)),
                    .of_classes = static_cast<E>(factor * smoothing / static_cast<double>(classes)),
                    .d_logits = element_at(d_logits, begin * classes)});
        });
  });
}

}  // namespace rapt::nn

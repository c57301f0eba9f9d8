#pragma once
// The picture of `rapt attend`: the map of one head, with words or ranges on its axes.
//
// With LSH attention it shows exact weights, with lines over the pairs that no round looked at. Two
// further calls then make a map of the head each: exact attention, which computes the scores of all
// pairs of all heads, and LSH attention with a scale of 0, where every pair looked at has a weight.
#include <optional>

#include "cli/attend/attend_captures.h"
#include "cli/attend/attend_problem.h"
#include "rapt/method/lsh.h"
#include "rapt/tensor.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {

// The two further calls of a picture of LSH attention.
class LshPicture {
 public:
  // None for other pictures. Throws as plan(). `problem` and `captures` must outlive it.
  static std::optional<LshPicture> plan_of(const Problem& problem, const CapturePlan& captures);

  // Memory of the calls: one follows the other.
  int64_t bytes() const;
  int64_t exact_scores() const;  // that exact attention computes
  int threads() const { return exact_plan_.threads; }

  struct Maps {
    Tensor exact, looked_at;  // [1, rows, columns]; looked_at: 0 = no pair of the cell
  };
  // Throws as scaled_dot_product_attention(). `progress`: called by each call in turn.
  Maps compute(const Progress& progress) const;

 private:
  LshPicture(const Problem& problem, const CapturePlan& captures, const Lsh& lsh);
  AttentionOptions exact_options() const;
  AttentionOptions looking_options() const;
  Plan plan(const AttentionOptions& options) const;
  Tensor map(const AttentionOptions& options, const Plan& plan, const Progress& progress) const;

  const Problem& problem_;
  const CapturePlan& captures_;
  const bool shared_;
  Lsh one_chunk_{1};  // exact attention with shared keys
  Plan exact_plan_, looking_plan_;
};

// `map`: the map that the plan requested, [..., rows, columns] or [heads, rows, columns]. `lsh`:
// those of LshPicture in its place, or null.
viz::Heatmap heatmap_of(const Problem& problem, const CapturePlan& plan, const TensorView& map,
                        const LshPicture::Maps* lsh);

}  // namespace rapt::cli

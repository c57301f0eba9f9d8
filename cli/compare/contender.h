#pragma once
// The calls that are compared: exact attention, the alternatives, the baselines beside them.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/alternatives/alternative.h"
#include "cli/compare/compare_problem.h"
#include "cli/compare/metrics/leak.h"
#include "cli/compare/metrics/result_error.h"
#include "cli/compare/metrics/true_weights.h"
#include "rapt/method/lsh.h"

namespace rapt::cli {

// Which exact result a call is compared with.
enum class Exactly : uint8_t {
  plain,        // exact attention of query, key and value
  shared_keys,  // that of lsh with shared keys: unit vectors of the query, no token itself
};

// What was measured of a call. Lists have an element per seed, or one if nothing is drawn.
struct Measured {
  std::vector<ResultError> output;
  std::vector<double> d_query, d_key, d_value;        // relative errors; empty: no gradient
  std::optional<double> bias, spread;                 // of the output, if it is drawn
  std::vector<TrueWeights> weights;                   // empty: the call looks at no pairs
  double pairs = 0;                                   // pairs that cost as much, of all heads
  std::optional<Leak> leak;                           // if the call is causal
  std::vector<double> forward, backward;              // CPU seconds of a call, an element per round
  int64_t forward_growth = -1, backward_growth = -1;  // bytes; -1: not measured
};

enum class Role : uint8_t { exact, mean, alternative, window };

struct Contender {
  Role role = Role::exact;
  Exactly exactly = Exactly::plain;
  std::string name;
  std::unique_ptr<Alternative> alternative;  // of that role, else null
  std::unique_ptr<Method> method;            // of a baseline, which the options refer to
  std::unique_ptr<Mask> mask;                // the same
  ComparedCall call;
  std::string refused;       // why the call is rejected; empty: it is computed
  std::string no_gradients;  // why it has none, if they are wanted
  // The index of the window that costs as much as an alternative; none: exact attention costs no
  // more, or has no room for another mask.
  std::optional<size_t> window;
  Measured measured;

  bool computed() const { return refused.empty(); }
  bool random() const { return alternative && alternative->is_random(); }
};

// The exact result that others are compared with.
struct Reference {
  Exactly exactly = Exactly::plain;
  std::unique_ptr<Method> method;  // of shared keys
  ComparedCall call;
  Tensor output, d_query, d_key, d_value;  // gradients are absent if they are not wanted
};

class Contenders {
 public:
  // Makes all but the windows. Throws Failure for files and texts; calls that are rejected are
  // marked as such.
  Contenders(CompareProblem& problem, const std::vector<AlternativeSpec>& specs, TensorInput& files,
             bool reference_in_doubles);

  std::deque<Contender>& all() { return all_; }
  const std::deque<Contender>& all() const { return all_; }
  std::deque<Reference>& references() { return references_; }
  Reference& reference_of(const Contender& contender);

  // Adds exact attention in a window of about `pairs` pairs of all heads, or finds the one that is
  // there. None if that is all that exact attention looks at, or if exact attention has
  // MaskList::kMost masks already.
  std::optional<size_t> window_of(Exactly exactly, double pairs);

  // The pairs of all heads that exact attention looks at.
  double pairs_of(Exactly exactly) const;

 private:
  void add_reference(Exactly exactly, bool in_doubles);
  void add_alternative(const AlternativeSpec& spec, TensorInput& files);
  void add_exact(Exactly exactly);
  void add_mean(Exactly exactly);
  Contender windowed(Exactly exactly, int64_t width);
  TensorView unit_keys();

  CompareProblem& problem_;
  std::deque<Contender> all_;
  std::deque<Reference> references_;
  Tensor unit_keys_;
  MemoryBudget& budget_;
};

}  // namespace rapt::cli

// The workspaces of forward pass, backward pass and tangents: all arrays lie apart and within the
// workspace. Only builds with assertions mark the places of arrays that a call does not have.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention/backward/backward_layout.h"
#include "attention/forward/forward_layout.h"
#include "attention/plan/prepare.h"
#include "attention/tangents/tangent_layout.h"
#include "check/compare/gradient_case.h"
#include "check/draw/law_grid.h"
#include "memory/members.h"
#include "support/problem_count.h"

namespace laws {
namespace {

using rapt::DType;
using rapt::Per;

struct Range {
  size_t begin, end;
};

// The arrays of a layout in each kind of memory.
class Arrays {
 public:
  template <class Layout>
  explicit Arrays(const Layout& layout) {
    collect(layout);
  }

  std::vector<Range>& of(Per per) { return of_[static_cast<size_t>(per)]; }

  // The arrays lie apart, from `begin` on and before `end`.
  void expect_apart(Per per, size_t begin, size_t end) {
    std::vector<Range>& ranges = of(per);
    std::ranges::sort(ranges, {}, [](const Range& r) { return std::pair(r.begin, r.end); });
    for (const Range& range : ranges) {
      EXPECT_EQ(range.begin % rapt::kScratchAlignment, 0u);
      EXPECT_GE(range.begin, begin);
      begin = range.end;
    }
    EXPECT_LE(begin, end);
  }

 private:
  template <class T, Per kPer>
  void collect(const rapt::Place<T, kPer>& place) {
    constexpr size_t kWithoutMemory = SIZE_MAX - 1;
    if (place.begin() >= kWithoutMemory) return;
    const auto bytes = static_cast<size_t>(place.count()) * sizeof(T);
    of(kPer).push_back({place.begin(), place.begin() + bytes});
  }
  template <class T>
  void collect(const T& member) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, rapt::RepeatedMemory>)
      for_each_member(member, [&](const auto& of) { collect(of); });
  }

  std::vector<Range> of_[3];
};

// `workers`, of which there are `count`, end the workspace.
void expect_apart(Arrays& arrays, const rapt::RepeatedMemory& workers, int64_t count,
                  size_t bytes) {
  EXPECT_FALSE(arrays.of(Per::worker).empty());
  arrays.expect_apart(Per::worker, 0, workers.bytes);
  arrays.expect_apart(Per::call, 0, workers.begin);
  EXPECT_EQ(workers.begin + static_cast<size_t>(count) * workers.bytes + 63, bytes);
}

template <class E>
void expect_forward(const rapt::CheckedCall& call, rapt::Memory memory) {
  const rapt::PreparedCall<E> prepared(call, {rapt::PassKind::forward, 1});
  rapt::Captures captures = rapt::requested_captures(call.problem, call.options);
  const rapt::Tiling tiling =
      rapt::tiling_of(call.problem, prepared.kernels, prepared.workers, memory,
                      rapt::may_share_rows(call), call.options.masks);
  captures.kept = rapt::keeps_scores(call, prepared.kernels, tiling);
  const auto layout = rapt::forward_layout(call, captures, tiling, prepared.kernels);
  Arrays arrays(layout);
  expect_apart(arrays, layout.score_tiles.workers, tiling.workers, layout.bytes);
}

// Layouts of the backward pass and of second derivatives, which have the same plan.
template <class E>
void expect_backward(const rapt::CheckedCall& call, const rapt::BackwardRequest& request) {
  const rapt::WantedGradients wanted = rapt::wanted_gradients(call, request);
  const rapt::PreparedCall<E> prepared(call, {rapt::PassKind::backward, 1});
  const rapt::BackwardPlan plan = rapt::backward_plan(call, wanted, prepared);
  const auto layout = rapt::backward_layout(call, wanted, plan, prepared.kernels);
  Arrays arrays(layout);
  const rapt::RepeatedMemory& components = layout.components;
  const int64_t count = wanted.two_passes || plan.workers_share_component ? 1 : plan.workers;
  arrays.expect_apart(Per::component, 0, components.bytes);
  arrays.of(wanted.two_passes ? Per::worker : Per::call)
      .push_back(
          {components.begin, components.begin + static_cast<size_t>(count) * components.bytes});
  expect_apart(arrays, layout.score_tiles.workers, plan.workers, layout.bytes);

  for (const bool second : {false, true}) {
    const auto tangents = rapt::tangent_layout(call, wanted, plan, prepared.kernels, second);
    Arrays of_tangents(tangents);
    expect_apart(of_tangents, tangents.score_tiles.workers, plan.workers, tangents.bytes);
  }
}

TEST(Layouts, ArraysLieApart) {
  LawGrid grid(base_seed());
  Random random(base_seed());
  for (int n = 0; n < problem_count(4000) && !HasFailure(); ++n) {
    const Descriptor descriptor = grid.next();
    SCOPED_TRACE(to_string(descriptor));
    const Case c(descriptor);
    const auto inputs = c.laid_out();
    const rapt::AttentionOptions options = c.wanted_options();
    rapt::Context context;
    context.threads = static_cast<int>(random.between(1, 4));
    const rapt::CheckedCall call(inputs.query, inputs.key, inputs.value, options, context,
                                 rapt::Elements::not_read);
    const auto memory = random.chance(0.5) ? rapt::Memory::automatic : rapt::Memory::low;
    const bool in_double = call.problem.result_dtype == DType::f64;
    (in_double ? expect_forward<double> : expect_forward<float>)(call, memory);

    if (descriptor.cache) continue;  // without gradients
    rapt::BackwardRequest request = GradientCase(c).request();
    if (random.chance(0.3)) request.key = false;
    if (random.chance(0.3)) request.dtype = call.problem.result_dtype;
    (in_double ? expect_backward<double> : expect_backward<float>)(call, request);
  }
}

}  // namespace
}  // namespace laws

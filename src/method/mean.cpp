// The mean of values; the formulas are in the header.
#include "rapt/method/mean.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "base/scratch_planner.h"
#include "base/tensor_memory.h"
#include "method/method_call.h"
#include "method/shared_heads.h"
#include "rapt/float16.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt {
namespace {

constexpr const char* kMasks[] = {"causal", "lengths"};
constexpr const char* kExamples[] = {""};

// A head of those that share a value, in the backward pass.
struct HeadOfValue {
  KeyReach reach;
  const std::byte* d_output;  // [q_len, value_dim]

  // The first query that attends to a key; q_len if none does. All later ones attend to it.
  int64_t first_query(int64_t key, int64_t q_len) const noexcept {
    if (key >= reach.keys) return q_len;
    return reach.causal ? std::clamp<int64_t>(key - reach.offset, 0, q_len) : 0;
  }
};

// How a pass is cut, and the scratch of each worker.
struct MeanPlan {
  Place<double> sums;        // [sums][value_dim]
  Place<HeadOfValue> heads;  // [heads that share a value]; backward only
  RepeatedMemory of_worker;
  size_t bytes = 0;
  int64_t tasks;
  Workers workers;

  MeanPlan(const MethodCall& call, int64_t all_tasks, int64_t shared_heads)
      : tasks(all_tasks), workers(work_of(call.problem), call.context) {
    ScratchPlanner<Per::worker> worker;
    ScratchPlanner<Per::call> whole;
    worker.place(sums, {shared_heads + 1, call.problem.value_dim});
    worker.place_if(shared_heads > 0, heads, {shared_heads});
    of_worker = whole.repeat(worker, threads());
    bytes = whole.aligned_total();
  }
  // To read and add a number takes as long as several multiplications.
  static double work_of(const Problem& p) {
    const auto numbers = static_cast<double>(p.heads) * static_cast<double>(p.q_len + p.k_len) *
                         static_cast<double>(p.value_dim + 1);
    return 4 * numbers;
  }
  int threads() const noexcept { return workers.of_tasks(tasks); }

  // Calls work(task, memory of the worker) for every task.
  template <class Work>
  void run(const Context& context, std::byte* scratch, const Work& work) const {
    TaskRun(context, tasks).run(tasks, threads(), workers.to_executor(), [&](int64_t t, int w) {
      work(t, of_worker.nth(scratch, w));
    });
  }
  MethodPlan as_method_plan() const {
    return {.kernel = "mean: running sums of values",
            .workspace_bytes = bytes,
            .threads = threads(),
            .pairs = 0};
  }
};

// Calls visit with an element of the dtype.
template <class Visit>
void with_element(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(double());
    case DType::bf16:
      return visit(BFloat16());
    case DType::f16:
      return visit(Float16());
    default:
      return visit(float());
  }
}

template <class T>
T stored(double x) noexcept {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(x);
  else
    return T::from(x);
}

// sums += factor * row. `row`: of a matrix [rows, dims].
template <class T>
void add_row(const TensorView& matrix, int64_t row, double factor, double* sums) noexcept {
  const T* const from = static_cast<const T*>(matrix.data) + row * matrix.strides[0];
  for (int64_t d = 0; d < matrix.shape[1]; ++d)
    sums[d] += factor * static_cast<double>(from[d * matrix.strides[1]]);
}

// row = sums / divisor.
template <class T>
void store_row(const TensorView& matrix, int64_t row, double divisor, const double* sums) noexcept {
  T* const to = static_cast<T*>(matrix.data) + row * matrix.strides[0];
  for (int64_t d = 0; d < matrix.shape[1]; ++d)
    to[d * matrix.strides[1]] = stored<T>(sums[d] / divisor);
}

// Means of one head. The keys of a query are the first ones, of which a later query has no fewer.
void average_values(const MethodCall& call, const Outputs& outputs, int64_t head, double* sums) {
  const Problem& p = call.problem;
  const KeyReach reach = call.reach(head);
  const TensorView value = call.value(head);
  const TensorView output = matrix_of(outputs.output, p, head, p.q_len, p.value_dim);
  std::fill_n(sums, p.value_dim, 0.0);
  with_element(p.dtype, [&]<class T>(T) {
    with_element(p.output_dtype, [&]<class O>(O) {
      int64_t added = 0;
      for (int64_t i = 0; i < p.q_len; ++i) {
        for (const int64_t end = reach.end(i); added < end; ++added)
          add_row<T>(value, added, 1, sums);
        store_row<O>(output, i, static_cast<double>(std::max<int64_t>(added, 1)), sums);
      }
    });
  });
  if (!outputs.statistic.data) return;
  const TensorView statistic = vector_of(outputs.statistic, p, head, p.q_len);
  with_element(p.result_dtype, [&]<class S>(S) {
    for (int64_t i = 0; i < p.q_len; ++i)
      static_cast<S*>(statistic.data)[i * statistic.strides[0]] =
          stored<S>(std::log(static_cast<double>(reach.end(i))));
  });
}

// Lists the heads of a component, which share a value.
void list_heads(const MethodCall& call, const Operand& d_output, const SharedHeads& shared,
                int64_t component, HeadOfValue* heads) {
  const Problem& p = call.problem;
  for (int64_t nth = 0; nth < shared.heads(); ++nth) {
    const int64_t head = shared(component, nth).head;
    int64_t index[kMaxRank];
    p.index_of(head, index);
    heads[nth] = {call.reach(head),
                  d_output.data ? d_output.at(d_output.offset_of(index, p.leading_rank)) : nullptr};
  }
}

// The gradient d_value [k_len, value_dim] of the value that `heads` share; sums [heads +
// 1][value_dim].
void sum_gradients(const MethodCall& call, const MethodGradients& g,
                   std::span<const HeadOfValue> heads, const TensorView& d_value, double* sums) {
  const Problem& p = call.problem;
  const int64_t dims = p.value_dim;
  TensorView d_output = matrix_of(g.inputs.d_output, p, 0, p.q_len, dims);
  double* const total = sums + static_cast<int64_t>(heads.size()) * dims;
  std::fill(sums, total, 0.0);
  with_element(p.output_dtype, [&]<class O>(O) {
    with_element(g.wanted.dtype, [&]<class G>(G) {
      for (int64_t j = p.k_len; j-- > 0;) {
        std::fill_n(total, dims, 0.0);
        double* of_head = sums;
        for (const HeadOfValue& head : heads) {
          d_output.data = const_cast<std::byte*>(head.d_output);
          // The queries that attend to key j, but not to the next one.
          for (int64_t i = head.first_query(j + 1, p.q_len); i-- > head.first_query(j, p.q_len);)
            add_row<O>(d_output, i, 1 / static_cast<double>(head.reach.end(i)), of_head);
          for (int64_t d = 0; d < dims; ++d) total[d] += of_head[d];
          of_head += dims;
        }
        store_row<G>(d_value, j, 1, total);
      }
    });
  });
}

// The heads that share a value, if its gradient is wanted.
SharedHeads heads_of_values(const MethodCall& call, const WantedGradients& wanted) {
  WantedGradients of_value;
  of_value.value = wanted.value;
  return SharedHeads(call, of_value);
}

}  // namespace

const Declaration Mean::kDeclaration = {
    "mean",
    "the mean of the values that a query attends to: the baseline of approximations",
    "softmax attention whose scores are all equal",
    {},
    kExamples};

const MethodScope Mean::kScope = {.masks = kMasks, .d_scale = true, .d_statistic = true};

void Mean::check(const MethodCall&) const {}

MethodPlan Mean::plan(const MethodCall& call) const {
  return MeanPlan(call, call.problem.heads, 0).as_method_plan();
}

void Mean::forward(const MethodCall& call, const MethodResults& results, std::byte* scratch) const {
  const MeanPlan plan(call, call.problem.heads, 0);
  plan.run(call.context, scratch, [&](int64_t head, std::byte* memory) {
    average_values(call, results.outputs, head, plan.sums.in(memory));
  });
}

MethodPlan Mean::plan_backward(const MethodCall& call, const WantedGradients& wanted) const {
  const SharedHeads shared = heads_of_values(call, wanted);
  return MeanPlan(call, shared.components(), shared.heads()).as_method_plan();
}

void Mean::backward(const MethodCall& call, const MethodGradients& g, std::byte* scratch) const {
  const Problem& p = call.problem;
  if (g.wanted.query) set_to_zero(g.tensors.d_query);
  if (g.wanted.key) set_to_zero(g.tensors.d_key);
  if (g.targets.scale) *g.targets.scale = 0;
  if (!g.targets.value.data) return;
  const SharedHeads shared = heads_of_values(call, g.wanted);
  const MeanPlan plan(call, shared.components(), shared.heads());
  plan.run(call.context, scratch, [&](int64_t component, std::byte* memory) {
    HeadOfValue* const heads = plan.heads.in(memory);
    list_heads(call, g.inputs.d_output, shared, component, heads);
    const TensorView d_value =
        matrix_of(g.targets.value, p, shared(component, 0).head, p.k_len, p.value_dim);
    sum_gradients(call, g, {heads, static_cast<size_t>(shared.heads())}, d_value,
                  plan.sums.in(memory));
  });
}

}  // namespace rapt

#pragma once
// Weights and maps of LSH attention: rows of the union's softmax, after all rounds of a head.
//
//   weight_ij = n_ij e^(scale q_i k_j) / sum for the pairs looked at, n_ij: how often they count;
//   0 for all others. Scores instead of weights: scale q_i k_j, and -inf for all others.
//
// A query without another key weighs itself by 1. Each row is computed on its own: it costs
// rounds * k_len comparisons and needs k_len numbers of scratch.
#include "attention/call/captures.h"
#include "method/lsh/hashed_heads.h"

namespace rapt {

template <class E>
class LshCaptures {
 public:
  // Throws Error(argument, unsupported).
  LshCaptures(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes,
              const HashedHeads<E>& hashed);

  void place(ScratchPlanner<Per::worker>& worker);
  // Tasks of a head: some requested rows, or a row of cells of the map, which may be all queries:
  // write_map() looks at the cancel token before each.
  int64_t tasks_of_weights() const noexcept;
  int64_t tasks_of_map() const noexcept;

  void write_weights(int64_t head, int64_t task, const Outputs& outputs, std::byte* memory,
                     std::byte* worker) const noexcept;
  void write_map(int64_t head, int64_t task, const Outputs& outputs, std::byte* memory,
                 std::byte* worker) const noexcept;

 private:
  // Writes the row of a query to `row` [k_len].
  void find_row(int64_t head, int64_t query, WeightsStage stage, std::byte* memory,
                E* row) const noexcept;
  // Turns the scores of a row into weights.
  void weigh(int64_t query, int64_t end, std::byte* memory, E* row) const noexcept;
  // How often a pair of hashed rows counts; 0: it is not looked at.
  int64_t count_of(int64_t query, int64_t key, std::byte* memory) const noexcept;
  E score(int64_t head, int64_t query, int64_t key, std::byte* memory) const noexcept;
  // Calls visit(matrix of [rows, columns]) for each place that a head has in the result.
  template <class Visit>
  void for_each_place(const ChosenHeads& heads, const Operand& result, int64_t rows,
                      int64_t columns, int64_t head, const Visit& visit) const noexcept;

  const MethodCall& call_;
  const Lsh& lsh_;
  const LshSizes& sizes_;
  const HashedHeads<E>& hashed_;
  const Captures captures_;
  Place<E> row_;
  Place<double> cells_;
};

}  // namespace rapt

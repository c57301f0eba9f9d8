#pragma once
// The numbers of scores that have gradients: real parameters, and all elements of the tensors that
// have some for each head (rapt/head_numbers.h), in the order of the declaration; a tensor
// row-major.
#include "attention/problem.h"

namespace rapt {

// Those of all heads, and those that one head uses.
int64_t count_of_numbers(const ScoreRef& score);
int64_t numbers_of_head(const ScoreRef& score);

// Which of all numbers is the `nth` that the head at `index` (leading dimensions) uses.
int64_t place_of_number(const ScoreRef& score, const Problem& problem, const int64_t* index,
                        int64_t nth);

// Calls visit(name, tensor) for every tensor among the parameters of the scores.
template <class Visit>
void for_each_score_tensor(std::span<const ScoreRef> scores, const Visit& visit) {
  for (const ScoreRef& score : scores)
    for (const Parameter& parameter : score.declaration->parameters)
      if (parameter.type == ParameterType::tensor)
        visit(parameter.name, parameter.get(score.object).tensor);
}

// Do the tensors fit the heads? Throws Error(argument, shape, dtype, overflow).
void check_score_tensors(const ScoreRef& score, const Problem& problem);

}  // namespace rapt

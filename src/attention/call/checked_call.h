#pragma once
// A call as it was checked, once, before anything else: what the caller gave, and the problem that
// it states. The verbs plan and run it; nothing changes it afterwards.
#include "attention/call/problem.h"

namespace rapt {

// Whether the call will read elements; a plan needs only shapes.
enum class Elements : uint8_t { not_read, read };

struct CheckedCall {
  const TensorView &query, &key, &value;  // the caller's; gradients have their shapes
  const AttentionOptions& options;
  const Context& context;
  const Problem problem;

  // Checks everything that can be checked without the outputs. Throws Error.
  CheckedCall(const TensorView& query_rows, const TensorView& key_rows,
              const TensorView& value_rows, const AttentionOptions& call_options,
              const Context& call_context, Elements elements)
      : query(query_rows),
        key(key_rows),
        value(value_rows),
        options(call_options),
        context(call_context),
        problem(make_problem(query, key, value, options)) {
    if (elements == Elements::read) require_data(query, key, value, options, problem);
  }
  // The same call, stated as another problem.
  CheckedCall(const CheckedCall& call, const Problem& restated, const AttentionOptions& its_options)
      : query(call.query),
        key(call.key),
        value(call.value),
        options(its_options),
        context(call.context),
        problem(restated) {}
  CheckedCall(const CheckedCall&) = delete;
  CheckedCall& operator=(const CheckedCall&) = delete;
};

}  // namespace rapt

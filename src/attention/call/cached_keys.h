#pragma once
// Checks of keys and values in a cache (rapt/cached_keys.h).
#include "attention/call/problem.h"

namespace rapt {

// Keys, or values, of a call with options.cache as the call broadcasts them: one page, without the
// axis of the pages where the query has no axis of sequences. Throws Error(shape).
TensorView one_page(const char* name, const TensorView& query, const TensorView& rows,
                    const AttentionOptions& options);

// Refuses options that a cache excludes, and sets the problem's k_len, that of a page so far, to
// the capacity of a sequence. Throws Error.
void take_capacity(const AttentionOptions& options, Problem& problem);

// Takes lengths, starts and block table, when packed sequences are known. Throws Error.
void take_pages(const TensorView& key, const TensorView& value, const AttentionOptions& options,
                Problem& problem);

}  // namespace rapt

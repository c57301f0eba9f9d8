// Every public struct of options works with designated initialisers for any subset of members.
// Compiled with warnings as errors: -Wextra would report a member without a default initialiser as
// missing.
#include "rapt/attention.h"
#include "rapt/key_value_cache.h"

namespace {

[[maybe_unused]] const rapt::AttentionOptions kScaled{.scale = 0.5};
[[maybe_unused]] const rapt::AttentionOptions kWithRows{.weights =
                                                            rapt::WeightsRequest{.row_begin = 1}};
[[maybe_unused]] const rapt::AttentionOptions kWithMap{
    .map = rapt::MapRequest{.rows = 1, .columns = 1},
    .top_k = 1,
    .received = true,
    .add_received = true};
[[maybe_unused]] const rapt::AttentionOptions kPacked{.precision = rapt::Precision::fma,
                                                      .packed = {.query_starts = {}}};
[[maybe_unused]] const rapt::AttentionState kOutputOnly{.output = {}};
[[maybe_unused]] const rapt::AttentionOutputs kNoWeights{.state = {.output = {}}};
[[maybe_unused]] const rapt::Context kLimited{.memory_limit = 1 << 20};
[[maybe_unused]] const rapt::AttentionOptions kCached{.cache = {.lengths = {}}};
[[maybe_unused]] const rapt::KeyValueCacheOptions kPaged{.head_dim = 8, .page_keys = 4, .pages = 2};
[[maybe_unused]] const rapt::Context kAlone{.threads = 1};

}  // namespace

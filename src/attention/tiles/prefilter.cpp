// Rounds the keys of calls with a prefilter.
#include "attention/tiles/prefilter.h"

#include "attention/plan/key_pass.h"
#include "attention/tiles/attended_rows.h"
#include "attention/tiles/tile_places.h"

namespace rapt {
namespace {

// Rows per task: more than in transform_keys.cpp, because each row is less work.
constexpr int64_t kTaskRows = 4096;

// Rounds rows [begin, end) of a matrix, as far as some query may attend to them. `begin` is the
// first row of a group.
void round_rows(const ForwardCall<float>& call, const KeyMatrices& matrices, int64_t matrix,
                int64_t begin, int64_t end, std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  const RouteKernels<float>& route = call.kernels.route;
  const KeyRange attended = attended_rows(call, matrices, matrix, scratch);
  begin = std::max(begin, attended.begin / kPrefilterGroup * kPrefilterGroup);
  end = std::min(end, attended.end);
  int64_t index[kMaxRank];
  matrices.first_head(p, matrix, index);
  const int64_t first = call.key.offset_of(index, p.leading_rank);
  const PrefilterPlaces<float>& places = call.layout.prefilter;
  for (int64_t row = begin; row < end; row += kPrefilterGroup) {
    const int64_t count = std::min(kPrefilterGroup, end - row);
    std::byte* const keys = call.key.at(first + row * call.key.row_stride);
    const auto* from = reinterpret_cast<const float*>(keys);
    int64_t stride = call.key.row_stride;
    if (!keys_in_place(p, route)) {
      float* const packed = places.rows.in(scratch);
      route.pack_keys(keys, call.key.row_stride, call.key.dim_stride, count, p.head_dim, packed);
      from = packed, stride = p.head_dim;
    }
    const int64_t at = matrix * prefilter_rows(p.k_len) + row;
    call.kernels.prefilter->round_keys(from, stride, count, p.head_dim, call.at(places.keys, at),
                                       call.at(places.groups, at / kPrefilterGroup));
  }
}

}  // namespace

template <class E>
void round_keys(const ForwardCall<E>& call, const Context& context) {
  if constexpr (sizeof(E) == sizeof(float)) {
    const Problem& p = call.problem;
    const KeyMatrices matrices(p, p.key);
    const int64_t per_matrix = ceil_div(p.k_len, kTaskRows);
    run_key_pass(call, call.layout.workers, context, matrices.count * per_matrix,
                 [&](int64_t task, std::byte* scratch) {
                   const int64_t begin = task % per_matrix * kTaskRows;
                   round_rows(call, matrices, task / per_matrix, begin,
                              std::min(begin + kTaskRows, p.k_len), scratch);
                 });
  }
}

template void round_keys(const ForwardCall<float>&, const Context&);
template void round_keys(const ForwardCall<double>&, const Context&);

}  // namespace rapt

// Sizes of panels, groups and pieces.
#include "products/product_call.h"

namespace rapt {
namespace {

// Pieces per worker, so that the last ones keep few workers waiting.
constexpr int64_t kTasksPerWorker = 4;

// The rows of a piece, and how many workers there are.
void cut_rows(ProductCut& c, int64_t rows, int64_t sum, const Workers& workers) {
  const int64_t most_rows = sum > kSumChunk ? kPieceRows : rows;
  c.piece = std::min(rows, most_rows);
  c.to_executor = workers.to_executor();
  if (const int most = workers.worthwhile(); most > 1 && c.groups > 0) {
    const int64_t wanted = ceil_div(kTasksPerWorker * most, c.groups);
    c.piece =
        std::clamp(round_up(ceil_div(rows, wanted), kRowBlock), std::min(rows, kRowBlock), c.piece);
  }
  c.pieces = c.piece > 0 ? ceil_div(rows, c.piece) : 0;
  c.workers = workers.of_tasks(c.groups * c.pieces);
}

// Bytes of the left side of a row block for a block of terms.
template <class E>
int64_t left_bytes(const KernelTable<E>& table, const RouteKernels<E>* route, int64_t rows,
                   int64_t terms) {
  const int64_t fma = (terms * round_up(rows, table.matrices.tile_rows) + table.lanes) *
                      static_cast<int64_t>(sizeof(E));
  if (!route) return fma;
  return std::max(fma, round_up(terms, route->step) * round_up(rows, route->layers->row_step) *
                           route->element_size);
}

template <class E>
void place_scratch(ProductLayout<E>& c, RightSide right, int64_t rows, int64_t sum,
                   const KernelTable<E>& table, const RouteKernels<E>* route) {
  constexpr int64_t kSize = sizeof(E);
  const int64_t block_rows = std::min(c.piece, kRowBlock);
  const bool by_terms = right == RightSide::terms_in_place;
  const bool few_rows = by_terms || right == RightSide::rows_in_place;
  ScratchPlanner<Per::call> call;
  ScratchPlanner<Per::worker> worker;
  worker.place(c.sums, {sum > c.chunk || few_rows ? c.piece : block_rows, c.group});
  worker.place_if(by_terms, c.block_sums, {c.piece, c.group});
  if (right == RightSide::per_task) {
    const int64_t terms = std::min(sum, c.chunk);
    if (route)
      worker.place(c.panels, {round_up(terms, route->step), c.group,
                              std::max<int64_t>(kSize, route->element_size)});
    else
      worker.place(c.panels, {terms, c.group, kSize});
  }
  if (few_rows)  // whole pairs of bf16
    worker.place(c.left, {rows, round_up(sum, 2), kSize});
  else
    worker.place(c.left, {left_bytes(table, route, block_rows, std::min(sum, kSumBlock))});
  worker.place(c.row, {std::max(c.group, c.piece)});
  const bool outside = route && route->find_outside;
  worker.place_if(outside, c.outside_rows, {ceil_div(c.piece, 64)});
  worker.place_if(outside, c.outside_columns, {words_of(c)});
  c.workers_memory = call.repeat(worker, c.workers);
  c.bytes = call.total();  // throws if it does not fit
}

template <class E>
int64_t group_columns(RightSide right, int64_t rows, int64_t columns, const RouteKernels<E>* route,
                      const Workers& workers) {
  // Long runs of columns are read faster: as few groups as there are threads.
  if (right == RightSide::terms_in_place)
    return std::clamp(ceil_div(columns, std::max(1, workers.worthwhile())), kFewRowsGroupColumns,
                      kTermsGroupColumns);
  const bool few_rows = right == RightSide::rows_in_place ||
                        (route && right == RightSide::per_task && rows <= kFewRows);
  return few_rows ? kFewRowsGroupColumns : kGroupColumns;
}

}  // namespace

template <class E>
ProductLayout<E> cut_product(ProductForm form, RightSide right, int64_t rows, int64_t columns,
                             int64_t sum, const Context& context, const RouteKernels<E>* route) {
  const double work =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(sum);
  const Workers workers(work, context);  // checks the context
  const KernelTable<E>& table = kernels<E>();
  ProductLayout<E> c;
  const bool column_sums = form == ProductForm::weight_gradient;  // even if there are no columns
  if (rows == 0 || (columns == 0 && !column_sums)) return c;
  c.width = int64_t{table.matrices.panel_vectors} * table.lanes;
  // Whole panels of both passes; widths are powers of two.
  const int64_t width = route ? std::max(c.width, route->layers->width) : c.width;
  const int64_t group = round_up(group_columns(right, rows, columns, route, workers), width);
  c.group = columns < group ? round_up(columns, width) : group;
  c.groups = columns > 0 ? ceil_div(columns, c.group) : 1;
  cut_rows(c, rows, sum, workers);
  if (route && c.piece <= kRowBlock) c.chunk = kSumBlock;  // stays in the L2 for the only row block
  place_scratch(c, right, rows, sum, table, route);
  return c;
}

template <class E>
PackedLayout<E> packed_layout(const ProductCut& cut, int64_t sum, const RouteKernels<E>* route) {
  PackedLayout<E> layout;
  ScratchPlanner<Per::call> memory;
  memory.place(layout.panels, {cut.groups, sum, cut.group});
  const int64_t step = route ? route->step : 1, size = route ? route->element_size : 0;
  memory.place_if(route, layout.of_route, {cut.groups, ceil_div(sum, step), step, cut.group, size});
  memory.place_if(route && route->find_outside, layout.outside, {cut.groups, words_of(cut)});
  layout.bytes = memory.total();
  return layout;
}

template ProductLayout<float> cut_product(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                          const Context&, const RouteKernels<float>*);
template ProductLayout<double> cut_product(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                           const Context&, const RouteKernels<double>*);
template PackedLayout<float> packed_layout(const ProductCut&, int64_t, const RouteKernels<float>*);
template PackedLayout<double> packed_layout(const ProductCut&, int64_t,
                                            const RouteKernels<double>*);

}  // namespace rapt

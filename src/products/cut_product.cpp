// Sizes of panels, groups and pieces.
#include "products/product_call.h"

namespace rapt {
namespace {

// Pieces per worker, so that the last ones keep few workers waiting.
constexpr int64_t kTasksPerWorker = 4;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }  // cannot overflow
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

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

template <class E>
void place_scratch(ProductLayout<E>& c, RightSide right, int64_t rows, int64_t sum, int64_t lanes,
                   int64_t tile_rows) {
  const int64_t terms = std::min(sum, kSumBlock), block_rows = std::min(c.piece, kRowBlock);
  const bool few_rows = right == RightSide::in_place;
  ScratchPlanner<Per::call> call;
  ScratchPlanner<Per::worker> worker;
  worker.place(c.sums, {sum > kSumChunk || few_rows ? c.piece : block_rows, c.group});
  if (right == RightSide::per_task) worker.place(c.panels, {std::min(sum, kSumChunk), c.group});
  if (few_rows)
    worker.place(c.left, {rows, sum});
  else
    worker.place(c.left, {terms * round_up(block_rows, tile_rows) + lanes});
  worker.place(c.row, {std::max(c.group, c.piece)});
  c.workers_memory = call.repeat(worker, c.workers);
  c.bytes = call.total();  // throws if it does not fit
}

}  // namespace

template <class E>
ProductLayout<E> cut_product(ProductForm form, RightSide right, int64_t rows, int64_t columns,
                             int64_t sum, const Context& context) {
  const double work =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(sum);
  const Workers workers(work, context);  // checks the context
  const KernelTable<E>& table = kernels<E>();
  ProductLayout<E> c;
  const bool column_sums = form == ProductForm::weight_gradient;  // even if there are no columns
  if (rows == 0 || (columns == 0 && !column_sums)) return c;
  c.width = int64_t{table.matrices.panel_vectors} * table.lanes;
  const bool few_rows = right == RightSide::in_place;
  const int64_t group = round_up(few_rows ? kFewRowsGroupColumns : kGroupColumns, c.width);
  c.group = columns < group ? round_up(columns, c.width) : group;
  c.groups = columns > 0 ? ceil_div(columns, c.group) : 1;
  cut_rows(c, rows, sum, workers);
  place_scratch(c, right, rows, sum, table.lanes, table.matrices.tile_rows);
  return c;
}

template ProductLayout<float> cut_product(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                          const Context&);
template ProductLayout<double> cut_product(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                           const Context&);

}  // namespace rapt

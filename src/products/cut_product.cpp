// Sizes of panels, groups and pieces.
#include "base/scratch_places.h"
#include "products/product_call.h"

namespace rapt {
namespace {

// Pieces per worker, so that the last ones keep few workers waiting.
constexpr int64_t kTasksPerWorker = 4;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }  // cannot overflow
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The rows of a piece, and how many workers there are.
void cut_rows(ProductCut& c, int64_t rows, int64_t sum, double work, const Workers& available) {
  const int64_t most_rows = sum > kSumChunk ? kPieceRows : rows;
  c.piece = std::min(rows, most_rows);
  const double worth = worthwhile_workers(work);
  c.workers = worth < available.most ? static_cast<int>(worth) : available.most;
  c.to_executor = worth >= 2;
  if (c.workers > 1 && c.groups > 0) {
    const int64_t wanted = ceil_div(kTasksPerWorker * c.workers, c.groups);
    c.piece =
        std::clamp(round_up(ceil_div(rows, wanted), kRowBlock), std::min(rows, kRowBlock), c.piece);
  }
  c.pieces = c.piece > 0 ? ceil_div(rows, c.piece) : 0;
  c.workers = static_cast<int>(std::clamp<int64_t>(c.groups * c.pieces, 1, c.workers));
  if (!available.can_be_fewer) c.workers = c.to_executor ? available.most : 1;
}

void place_scratch(ProductCut& c, RightSide right, int64_t rows, int64_t sum, int64_t lanes,
                   int64_t tile_rows, size_t element) {
  const int64_t terms = std::min(sum, kSumBlock);
  const bool few_rows = right == RightSide::in_place;
  ScratchPlaces places;
  const int64_t block_rows = std::min(c.piece, kRowBlock);
  c.sums =
      places.place(true, {sum > kSumChunk || few_rows ? c.piece : block_rows, c.group}, element);
  c.panels =
      places.place(right == RightSide::per_task, {std::min(sum, kSumChunk), c.group}, element);
  c.left = few_rows
               ? places.place(true, {rows, sum}, element)
               : places.place(true, {terms * round_up(block_rows, tile_rows) + lanes}, element);
  c.row = places.place(true, {std::max(c.group, c.piece)}, element);
  c.worker_bytes = places.bytes();
  places.repeat(c.workers, 0);
  c.bytes = places.total();  // throws if it does not fit
}

}  // namespace

template <class E>
ProductCut cut_product(ProductForm form, RightSide right, int64_t rows, int64_t columns,
                       int64_t sum, const Context& context) {
  const double work =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(sum);
  const Workers available = workers_of(work, context);  // checks the context
  const KernelTable<E>& table = kernels<E>();
  ProductCut c;
  c.bytes = 63;
  const bool column_sums = form == ProductForm::weight_gradient;  // even if there are no columns
  if (rows == 0 || (columns == 0 && !column_sums)) return c;
  c.width = int64_t{table.matrices.panel_vectors} * table.lanes;
  const bool few_rows = right == RightSide::in_place;
  const int64_t group = round_up(few_rows ? kFewRowsGroupColumns : kGroupColumns, c.width);
  c.group = columns < group ? round_up(columns, c.width) : group;
  c.groups = columns > 0 ? ceil_div(columns, c.group) : 1;
  cut_rows(c, rows, sum, work, available);
  place_scratch(c, right, rows, sum, table.lanes, table.matrices.tile_rows, sizeof(E));
  return c;
}

template ProductCut cut_product<float>(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                       const Context&);
template ProductCut cut_product<double>(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                        const Context&);

}  // namespace rapt

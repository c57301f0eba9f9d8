// Sizes of panels, groups and pieces.
#include "base/scratch_places.h"
#include "products/product_call.h"

namespace rapt {
namespace {

// Pieces per worker, so that the last ones keep few workers waiting.
constexpr int64_t kTasksPerWorker = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace

template <class E>
ProductCut cut_product(ProductForm form, RightSide right, int64_t rows, int64_t columns,
                       int64_t sum, const Context& context) {
  const KernelTable<E>& table = kernels<E>();
  const RouteKernels<E>& route =
      *table.fma[static_cast<int>(sizeof(E) == 4 ? DType::f32 : DType::f64)];
  ProductCut c;
  const int vectors =
      form == ProductForm::input_gradient ? table.matrices.gradient_vectors : route.long_vectors;
  c.width = int64_t{vectors} * table.lanes;
  const int64_t group = form == ProductForm::weight_gradient ? kWeightGroupColumns : kGroupColumns;
  c.group = std::min(ceil_div(group, c.width) * c.width, round_up(columns, c.width));
  c.groups = columns > 0 ? ceil_div(columns, c.group) : form == ProductForm::weight_gradient;
  const int64_t most_rows = sum > kSumChunk ? kPieceRows : rows;
  c.piece = std::min(rows, most_rows);

  const double work =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(sum);
  const Workers available = workers_of(work, context);
  const double worth = worthwhile_workers(work);
  c.workers = worth < available.most ? static_cast<int>(worth) : available.most;
  c.to_executor = worth >= 2;
  if (c.workers > 1 && c.groups > 0) {
    const int64_t wanted = ceil_div(kTasksPerWorker * c.workers, c.groups);
    c.piece = std::clamp(round_up(ceil_div(rows, wanted), kRowBlock), std::min(rows, kRowBlock),
                         std::min(rows, most_rows));
  }
  c.pieces = c.piece > 0 ? ceil_div(rows, c.piece) : 0;
  c.workers = static_cast<int>(std::clamp<int64_t>(c.groups * c.pieces, 1, c.workers));
  if (!available.can_be_fewer) c.workers = c.to_executor ? available.most : 1;

  const int64_t block_rows = std::min(c.piece, kRowBlock), terms = std::min(sum, kSumBlock);
  const bool few_rows = right == RightSide::in_place;
  ScratchPlaces places;
  constexpr size_t kElement = sizeof(E);
  c.sums =
      places.place(true, {sum > kSumChunk || few_rows ? c.piece : block_rows, c.group}, kElement);
  c.panels =
      places.place(right == RightSide::per_task, {std::min(sum, kSumChunk), c.group}, kElement);
  c.left = few_rows ? places.place(true, {rows, sum}, kElement)
                    : places.place(true, {terms, block_rows}, kElement);
  c.row = places.place(true, {std::max(c.group, c.piece)}, kElement);
  c.worker_bytes = places.bytes();
  places.total();  // throws if it does not fit
  return c;
}

template ProductCut cut_product<float>(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                       const Context&);
template ProductCut cut_product<double>(ProductForm, RightSide, int64_t, int64_t, int64_t,
                                        const Context&);

}  // namespace rapt

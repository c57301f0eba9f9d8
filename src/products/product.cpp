// The public functions: every check, once, then the cut and the loops.
#include "rapt/product.h"

#include <optional>
#include <string>
#include <utility>

#include "base/call_memory.h"
#include "base/tensor_memory.h"
#include "products/product_call.h"
#include "products/product_route.h"

namespace rapt {
namespace {

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, message); }

// Are elements of this type computed in f64, or in f32?
bool is_double(const char* name, const TensorView& view) {
  if (view.dtype > DType::f16)
    fail(ErrorCode::dtype,
         described(name, view) + " is " + name_of(view.dtype) + "; expected f32, f64, bf16 or f16");
  return view.dtype == DType::f64;
}

// A tensor of a product, with its name for messages.
struct Named {
  const char* name;
  const TensorView& view;
};

Matrix matrix_of(const TensorView& view) {
  Matrix m;
  m.data = static_cast<std::byte*>(view.data);
  m.dtype = view.dtype;
  m.rows = view.rank == 2 ? view.shape[0] : 1;
  m.columns = view.shape[view.rank - 1];
  m.row_stride = view.rank == 2 && m.rows > 1 ? view.strides[0] : 0;
  m.column_stride = m.columns > 1 ? view.strides[view.rank - 1] : 1;
  if (view.empty()) m.data = nullptr, m.row_stride = 0, m.column_stride = 1;
  return m;
}

Matrix input_matrix(const Named& in, bool in_double) {
  const auto& [name, view] = in;
  if (!view.defined()) fail(ErrorCode::argument, std::string(name) + " is missing");
  if (view.rank != 2)
    fail(ErrorCode::shape, described(name, view) + " has rank " + std::to_string(view.rank) +
                               "; expected 2: [rows, features]; as_matrix() merges dimensions");
  for (const int64_t length : view.dims())
    if (length < 0) element_count(view.dims());  // throws
  if (is_double(name, view) != in_double)
    fail(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) +
                               "; f64 goes with f64 alone, convert one of them");
  extent_of(name, view);
  check_alignment(name, view);
  if (!view.empty() && !view.data)
    fail(ErrorCode::argument, described(name, view) + " has elements but a null data pointer");
  return matrix_of(view);
}

Matrix output_matrix(const Named& out, std::initializer_list<int64_t> expected, bool in_double) {
  const auto& [name, view] = out;
  if (!view.defined()) fail(ErrorCode::argument, std::string(name) + " is missing");
  if (is_double(name, view) != in_double)
    fail(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) +
                               "; f64 goes with f64 alone, give it another dtype");
  check_output_tensor(name, view, Shape(expected.begin(), expected.size()), view.dtype);
  return matrix_of(view);
}

void check_length(const Named& tensor, int dim, const char* features, int64_t expected) {
  if (tensor.view.shape[dim] != expected)
    fail(ErrorCode::shape, described(tensor.name, tensor.view) + ": expected " + features + " = " +
                               std::to_string(expected));
}

// Throws Error(overlap) if an output shares memory with an input or with an output before it.
void check_apart(std::initializer_list<Named> outputs, std::initializer_list<Named> inputs,
                 std::span<const std::byte> workspace) {
  const auto compare = [](const Named& a, const Named& b) {
    if (a.view.defined() && b.view.defined() &&
        extent_of(a.name, a.view).meets(extent_of(b.name, b.view)))
      fail(ErrorCode::overlap,
           std::string(a.name) + " overlaps " + b.name + " in memory; give it memory of its own");
  };
  const auto begin = reinterpret_cast<uintptr_t>(workspace.data());
  const Bytes scratch{workspace.empty() ? 0 : begin,
                      workspace.empty() ? 0 : begin + workspace.size()};
  const auto outside = [&](const Named& a) {
    if (a.view.defined() && extent_of(a.name, a.view).meets(scratch))
      fail(ErrorCode::overlap, std::string(a.name) + " overlaps the workspace in memory");
  };
  for (const Named* a = outputs.begin(); a != outputs.end(); ++a) {
    for (const Named& b : inputs) compare(*a, b);
    for (const Named* b = outputs.begin(); b != a; ++b) compare(*a, *b);
    outside(*a);
  }
  for (const Named& b : inputs) outside(b);
}

void check_precision(Precision precision) {
  if (precision > Precision::fast)
    fail(ErrorCode::argument, "precision " + std::to_string(static_cast<int>(precision)) +
                                  " is unknown; expected automatic, fma or fast");
}

// The weight of a product: a matrix, or packed panels and the sizes of the matrix.
struct Weight {
  TensorView view;  // the memory, for overlaps
  Matrix matrix;
  std::byte* packed = nullptr;
};

// The product for which a weight is packed, and how it is cut.
template <class E>
ProductLayout<E> packed_cut(int64_t out_features, int64_t in_features, PackedFor use,
                            const RouteKernels<E>* route) {
  const bool forward = use == PackedFor::multiply;
  return cut_product<E>(forward ? ProductForm::forward : ProductForm::input_gradient,
                        RightSide::packed, 1, forward ? out_features : in_features,
                        forward ? in_features : out_features, Context{}, route);
}
template <class E>
PackedLayout<E> layout_of(int64_t out_features, int64_t in_features, PackedFor use,
                          const RouteKernels<E>* route) {
  return packed_layout<E>(packed_cut<E>(out_features, in_features, use, route),
                          use == PackedFor::multiply ? in_features : out_features, route);
}

template <class E>
void run(ProductCall<E>& call, Precision precision, const Context& context,
         std::span<std::byte> workspace, std::byte* packed = nullptr) {
  const RouteKernels<E>* const of_right = product_route<E>(call.right.dtype, precision);
  const bool used = call.left.dtype == call.right.dtype && call.sum > 0 && call.out.columns > 0;
  call.route = used ? of_right : nullptr;
  std::optional<Workspace> panels;
  if (packed) {
    const PackedFor use =
        call.form == ProductForm::forward ? PackedFor::multiply : PackedFor::multiply_gradient;
    const auto layout = layout_of(call.right.rows, call.right.columns, use, of_right);
    const size_t bytes = layout.bytes - (kScratchAlignment - 1);  // `packed` is aligned
    call.packed = packed_right(layout, panels.emplace(std::span(packed, bytes), bytes).begin());
  }
  const ProductLayout<E> cut =
      cut_product<E>(call.form, call.right_side(), call.out.rows, call.out.columns, call.sum,
                     context, packed ? of_right : call.route);
  const size_t needed = cut.bytes;
  if (!workspace.empty()) {
    run_product(call, cut, context, Workspace(workspace, needed).begin());
    return;
  }
  check_memory_limit(needed, context, "");
  const Tensor own(DType::u8, {static_cast<int64_t>(needed)});
  auto* const memory = const_cast<std::byte*>(static_cast<const std::byte*>(own.data()));
  run_product(call, cut, context, Workspace({memory, needed}, needed).begin());
}

// Throws Error(shape) if the length of the weight that meets the left side is not `expected`.
Weight weight_of(const TensorView& weight, PackedFor use, Precision, bool in_double,
                 int64_t expected) {
  Weight w{.view = weight, .matrix = input_matrix({"weight", weight}, in_double)};
  const bool forward = use == PackedFor::multiply;
  check_length({"weight", weight}, forward, forward ? "in_features" : "out_features", expected);
  return w;
}

Weight weight_of(const PackedWeight& weight, PackedFor use, Precision precision, bool in_double,
                 int64_t expected) {
  const bool forward = use == PackedFor::multiply;
  if (!weight.panels)
    fail(ErrorCode::argument, "the packed weight is missing; pack_weight() makes it");
  if (weight.use != use)
    fail(ErrorCode::argument, std::string("the weight is packed for ") +
                                  (forward ? "multiply_gradient" : "multiply") +
                                  "; pack it for this product, too");
  if ((weight.dtype == DType::f64) != in_double)
    fail(ErrorCode::dtype, "f64 goes with f64 alone, and the packed weight was " +
                               std::string(name_of(weight.dtype)));
  if (weight.precision != precision)
    fail(ErrorCode::argument, std::string("the weight is packed for precision ") +
                                  kPrecisionNames[static_cast<int>(weight.precision)] +
                                  ", and the product is of precision " +
                                  kPrecisionNames[static_cast<int>(precision)] +
                                  "; pack it for this precision, too");
  if ((forward ? weight.in_features : weight.out_features) != expected)
    fail(ErrorCode::shape, "the packed weight [" + std::to_string(weight.out_features) + ", " +
                               std::to_string(weight.in_features) + "]: expected " +
                               (forward ? "in_features = " : "out_features = ") +
                               std::to_string(expected));
  Weight w;
  w.packed = static_cast<std::byte*>(const_cast<void*>(weight.panels));
  w.matrix.dtype = weight.dtype;
  w.matrix.rows = weight.out_features, w.matrix.columns = weight.in_features;
  w.matrix.row_stride = weight.in_features;
  const auto bytes = static_cast<int64_t>(
      packed_weight_bytes(weight.out_features, weight.in_features, weight.dtype, use));
  w.view = TensorView(static_cast<const uint8_t*>(weight.panels),
                      {bytes - static_cast<int64_t>(kScratchAlignment - 1)});
  return w;
}

template <class E>
void multiply_as(const Matrix& x, const Weight& weight, const Matrix& y, const Matrix& bias,
                 const Matrix& before, const ProductOptions& options, const Context& context,
                 std::span<std::byte> workspace) {
  ProductCall<E> call{.form = ProductForm::forward,
                      .table = kernels<E>(),
                      .left = x,
                      .right = weight.matrix,
                      .out = y,
                      .sum = x.columns,
                      .store = {},
                      .before = before,
                      .bias = bias,
                      .column_sums = {},
                      .packed = {}};
  call.store.activation = options.activation;
  call.store.add = options.add;
  run(call, options.precision, context, workspace, weight.packed);
}

template <class E>
void input_gradient_as(const Matrix& d_y, const Weight& weight, const Matrix& d_x, bool add,
                       Precision precision, const Context& context,
                       std::span<std::byte> workspace) {
  ProductCall<E> call{.form = ProductForm::input_gradient,
                      .table = kernels<E>(),
                      .left = d_y,
                      .right = weight.matrix,
                      .out = d_x,
                      .sum = d_y.columns,
                      .store = {},
                      .before = {},
                      .bias = {},
                      .column_sums = {},
                      .packed = {}};
  call.store.add = add;
  run(call, precision, context, workspace, weight.packed);
}

template <class E>
void weight_gradient_as(const Matrix& d_y, const Matrix& x, const Matrix& d_weight,
                        const Matrix& d_bias, Precision precision, const Context& context,
                        std::span<std::byte> workspace) {
  ProductCall<E> call{.form = ProductForm::weight_gradient,
                      .table = kernels<E>(),
                      .left = d_y,
                      .right = x,
                      .out = d_weight,
                      .sum = d_y.rows,
                      .store = {},
                      .before = {},
                      .bias = {},
                      .column_sums = d_bias,
                      .packed = {}};
  call.store.add = true;
  run(call, precision, context, workspace);
}

// multiply() by a weight of either kind.
template <class AnyWeight>
void multiply_by(const TensorView& x, const AnyWeight& any_weight, const TensorView& y,
                 const ProductOptions& options, const Context& context,
                 std::span<std::byte> workspace) {
  const bool in_double = x.defined() && is_double("x", x);
  const Matrix x_matrix = input_matrix({"x", x}, in_double);
  check_precision(options.precision);
  const Weight weight =
      weight_of(any_weight, PackedFor::multiply, options.precision, in_double, x.shape[1]);
  const int64_t out_features = weight.matrix.rows;
  const Matrix out = output_matrix({"y", y}, {x.shape[0], out_features}, in_double);
  Matrix bias, before;
  if (options.bias.defined()) {
    if (options.bias.rank != 1)
      fail(ErrorCode::shape, described("bias", options.bias) + "; expected [out_features]");
    check_length({"bias", options.bias}, 0, "out_features", out_features);
    TensorView row = options.bias;
    row.rank = 2;
    row.shape[1] = row.shape[0], row.strides[1] = row.strides[0];
    row.shape[0] = 1, row.strides[0] = 0;
    bias = input_matrix({"bias", row}, in_double);
  }
  if (options.before_activation.defined()) {
    before = output_matrix({"before_activation", options.before_activation},
                           {x.shape[0], out_features}, in_double);
    if (before.dtype != out.dtype)
      fail(ErrorCode::dtype, std::string("before_activation is ") + name_of(before.dtype) +
                                 "; expected the dtype of y, " + name_of(out.dtype));
  }
  if (options.activation > Activation::silu)
    fail(ErrorCode::argument,
         "activation " + std::to_string(static_cast<int>(options.activation)) + " is unknown");
  check_apart({{"y", y}, {"before_activation", options.before_activation}},
              {{"x", x}, {"weight", weight.view}, {"bias", options.bias}}, workspace);
  (in_double ? multiply_as<double> : multiply_as<float>)(x_matrix, weight, out, bias, before,
                                                         options, context, workspace);
}

// multiply_gradient() by a weight of either kind.
template <class AnyWeight>
void multiply_gradient_by(const TensorView& d_y, const AnyWeight& any_weight, const TensorView& d_x,
                          bool add, const Context& context, std::span<std::byte> workspace,
                          Precision precision) {
  const bool in_double = d_y.defined() && is_double("d_y", d_y);
  const Matrix left = input_matrix({"d_y", d_y}, in_double);
  check_precision(precision);
  const Weight weight =
      weight_of(any_weight, PackedFor::multiply_gradient, precision, in_double, d_y.shape[1]);
  const Matrix out = output_matrix({"d_x", d_x}, {d_y.shape[0], weight.matrix.columns}, in_double);
  check_apart({{"d_x", d_x}}, {{"d_y", d_y}, {"weight", weight.view}}, workspace);
  (in_double ? input_gradient_as<double> : input_gradient_as<float>)(left, weight, out, add,
                                                                     precision, context, workspace);
}

template <class E>
void pack_as(const Matrix& weight, PackedFor use, Precision precision, std::byte* memory) {
  if (!weight.data) return;
  const bool forward = use == PackedFor::multiply;
  ProductCall<E> call{.form = forward ? ProductForm::forward : ProductForm::input_gradient,
                      .table = kernels<E>(),
                      .left = {},
                      .right = weight,
                      .out = {},
                      .sum = forward ? weight.columns : weight.rows,
                      .store = {},
                      .before = {},
                      .bias = {},
                      .column_sums = {},
                      .packed = {},
                      .route = product_route<E>(weight.dtype, precision)};
  call.out.columns = forward ? weight.rows : weight.columns;
  pack_right(call, packed_cut<E>(weight.rows, weight.columns, use, call.route),
             layout_of<E>(weight.rows, weight.columns, use, call.route), memory);
}

void check_not_negative(std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes)
    if (size < 0)
      fail(ErrorCode::argument, "a size of " + std::to_string(size) + "; expected 0 or more");
}

// The bytes that are enough for each of the three products, by any route.
template <class E>
size_t most_bytes(int64_t rows, int64_t in_features, int64_t out_features, const Context& context) {
  size_t most = 0;
  for_each_route<E>([&](const RouteKernels<E>* route) {
    const auto take = [&](ProductForm form, RightSide right, int64_t m, int64_t n, int64_t sum) {
      most = std::max(most, cut_product<E>(form, right, m, n, sum, context, route).bytes);
    };
    if (rows <= kFewRows)
      for (const RightSide right : {RightSide::rows_in_place, RightSide::terms_in_place})
        take(ProductForm::forward, right, rows, out_features, in_features);
    for (const RightSide right : {RightSide::per_task, RightSide::packed}) {
      take(ProductForm::forward, right, rows, out_features, in_features);
      take(ProductForm::input_gradient, right, rows, in_features, out_features);
    }
    for (const int64_t columns : {in_features, int64_t{0}})  // 0: d_bias alone
      take(ProductForm::weight_gradient, RightSide::per_task, out_features, columns, rows);
  });
  return most;
}

template <class E>
size_t most_packed_bytes(int64_t out_features, int64_t in_features, PackedFor use) {
  size_t most = 0;
  for_each_route<E>([&](const RouteKernels<E>* route) {
    most = std::max(most, layout_of<E>(out_features, in_features, use, route).bytes);
  });
  return most;
}

}  // namespace

void multiply(const TensorView& x, const TensorView& weight, const TensorView& y,
              const ProductOptions& options, const Context& context,
              std::span<std::byte> workspace) {
  multiply_by(x, weight, y, options, context, workspace);
}
void multiply(const TensorView& x, const PackedWeight& weight, const TensorView& y,
              const ProductOptions& options, const Context& context,
              std::span<std::byte> workspace) {
  multiply_by(x, weight, y, options, context, workspace);
}

void multiply_gradient(const TensorView& d_y, const TensorView& weight, const TensorView& d_x,
                       bool add, const Context& context, std::span<std::byte> workspace,
                       Precision precision) {
  multiply_gradient_by(d_y, weight, d_x, add, context, workspace, precision);
}
void multiply_gradient(const TensorView& d_y, const PackedWeight& weight, const TensorView& d_x,
                       bool add, const Context& context, std::span<std::byte> workspace,
                       Precision precision) {
  multiply_gradient_by(d_y, weight, d_x, add, context, workspace, precision);
}

void add_weight_gradient(const TensorView& d_y, const TensorView& x, const TensorView& d_weight,
                         const TensorView& d_bias, const Context& context,
                         std::span<std::byte> workspace, Precision precision) {
  const bool in_double = d_y.defined() && is_double("d_y", d_y);
  const Matrix left = input_matrix({"d_y", d_y}, in_double);
  const Matrix right = input_matrix({"x", x}, in_double);
  check_length({"x", x}, 0, "rows", d_y.shape[0]);
  check_precision(precision);
  Matrix out, sums;
  out.rows = d_y.shape[1];
  if (d_weight.defined())
    out = output_matrix({"d_weight", d_weight}, {d_y.shape[1], x.shape[1]}, in_double);
  if (d_bias.defined()) sums = output_matrix({"d_bias", d_bias}, {d_y.shape[1]}, in_double);
  check_apart({{"d_weight", d_weight}, {"d_bias", d_bias}}, {{"d_y", d_y}, {"x", x}}, workspace);
  (in_double ? weight_gradient_as<double>
             : weight_gradient_as<float>)(left, right, out, sums, precision, context, workspace);
}

size_t product_workspace_bytes(int64_t rows, int64_t in_features, int64_t out_features, DType dtype,
                               const Context& context) {
  check_not_negative({rows, in_features, out_features});
  for (const auto& [length, width] :
       {std::pair(rows, in_features), std::pair(out_features, in_features),
        std::pair(rows, out_features)}) {
    const int64_t shape[] = {length, width};
    element_count(shape);  // throws if there are too many
  }
  return dtype == DType::f64 ? most_bytes<double>(rows, in_features, out_features, context)
                             : most_bytes<float>(rows, in_features, out_features, context);
}

size_t packed_weight_bytes(int64_t out_features, int64_t in_features, DType dtype, PackedFor use) {
  check_not_negative({out_features, in_features});
  return dtype == DType::f64 ? most_packed_bytes<double>(out_features, in_features, use)
                             : most_packed_bytes<float>(out_features, in_features, use);
}

PackedWeight pack_weight(const TensorView& weight, PackedFor use, std::span<std::byte> memory,
                         Precision precision) {
  const bool in_double = weight.defined() && is_double("weight", weight);
  const Matrix matrix = input_matrix({"weight", weight}, in_double);
  check_precision(precision);
  const Workspace panels(memory,
                         packed_weight_bytes(matrix.rows, matrix.columns, weight.dtype, use));
  check_apart({}, {{"weight", weight}}, memory);
  (in_double ? pack_as<double> : pack_as<float>)(matrix, use, precision, panels.begin());
  return {.panels = panels.begin(),
          .out_features = matrix.rows,
          .in_features = matrix.columns,
          .dtype = weight.dtype,
          .use = use,
          .precision = precision};
}

const char* product_kernel(DType left, DType right, Precision precision) {
  check_precision(precision);
  const RouteKernels<float>* const route =
      left == right && left <= DType::f16 ? product_route<float>(left, precision) : nullptr;
  return route ? route->kernel : "fma";
}

TensorView as_matrix(const TensorView& view) {
  if (!view.defined()) fail(ErrorCode::argument, "the tensor is missing");
  check_rank("the tensor", view);
  if (view.rank == 0) fail(ErrorCode::shape, "the tensor has rank 0; expected [..., features]");
  int64_t rows = 1, stride = 0;  // of the dimensions merged so far, from the last to the first
  const bool empty = view.empty();
  for (int i = view.rank - 2; i >= 0; --i) {
    const int64_t length = view.shape[i];
    if (!empty && length != 1) {
      int64_t expected;
      if (rows != 1 &&
          (__builtin_mul_overflow(rows, stride, &expected) || view.strides[i] != expected))
        fail(ErrorCode::shape, described("the tensor", view) +
                                   ": its rows are not at equal distances; copy it, or call once "
                                   "per matrix");
      if (rows == 1) stride = view.strides[i];
    }
    if (__builtin_mul_overflow(rows, length, &rows)) element_count(view.dims());  // throws
  }
  TensorView matrix = view;
  matrix.rank = 2;
  matrix.shape[1] = view.shape[view.rank - 1], matrix.strides[1] = view.strides[view.rank - 1];
  matrix.shape[0] = rows, matrix.strides[0] = stride;
  return matrix;
}

}  // namespace rapt

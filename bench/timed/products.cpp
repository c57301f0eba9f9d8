// Speed of the three products of a linear layer (rapt/product.h), one thread, f32 and bf16:
//
//   bench_products [--filter TEXT] [--repetitions N] [--quick] [--json]
//
//   y         = x weight^T       d_x = d_y weight       d_weight += d_y^T x
//
// A name is "y rows x in -> out", and the dtype and the precision if they are not f32 and
// automatic. Percentages are of the f32 FMA peak for every dtype. Shapes: GPT-2 124M, 1,024 tokens
// and, for the vocabulary, 64; nanoGPT's small recipe, 384 wide and 65 characters, 64 sequences of
// 256 tokens; one row, as in generating a token, which reads the weight once. How it is measured:
// timed_case.h.
#include <cstring>
#include <memory>
#include <random>

#include "rapt/product.h"
#include "timed/timed_case.h"

namespace {

struct Shape {
  int64_t rows, in, out;
};
constexpr Shape kShapes[] = {
    {1024, 768, 768}, {1024, 768, 2304}, {1024, 768, 3072},  {1024, 3072, 768},  {64, 768, 50257},
    {512, 768, 65},   {16384, 384, 384}, {16384, 384, 1152}, {16384, 384, 1536}, {16384, 1536, 384},
    {16384, 384, 65}, {768, 128, 384},   {768, 128, 128},    {768, 512, 128},    {768, 128, 65},
};
constexpr Shape kOneRow[] = {{1, 768, 768}, {1, 768, 50257}, {1, 4096, 11008}};
// Shapes that are measured in all arithmetics.
constexpr Shape kCompared[] = {
    {1024, 768, 768}, {1024, 768, 3072}, {64, 768, 50257}, {16384, 384, 1536}};

// How products are computed.
struct Arithmetic {
  rapt::DType dtype = rapt::DType::f32;
  rapt::Precision precision = rapt::Precision::automatic;
  const char* name = "";  // behind that of the shape
};
constexpr Arithmetic kBFloat16 = {rapt::DType::bf16, rapt::Precision::automatic, " bf16"};
constexpr Arithmetic kOthers[] = {
    kBFloat16,
    {rapt::DType::bf16, rapt::Precision::fma, " bf16 fma"},
    {rapt::DType::f32, rapt::Precision::fma, " fma"},
    {rapt::DType::f32, rapt::Precision::fast, " fast"},
};
// Is this another kernel than that of the dtype by default?
bool differs(const Arithmetic& a) {
  const auto kernel = [&](rapt::Precision precision) {
    return rapt::product_kernel(a.dtype, a.dtype, precision);
  };
  return std::strcmp(kernel(a.precision), kernel(rapt::Precision::automatic)) != 0;
}

enum class Product { y, d_x, d_weight };
constexpr Product kProducts[] = {Product::y, Product::d_x, Product::d_weight};
const char* name_of(Product product) {
  return product == Product::y ? "y" : product == Product::d_x ? "d_x" : "d_weight";
}

rapt::Tensor random_normal(std::mt19937& generator, rapt::DType dtype, int64_t rows,
                           int64_t columns) {
  rapt::Tensor t(dtype, {rows, columns});
  std::normal_distribution<float> normal;
  if (dtype == rapt::DType::f32)
    for (float& x : t.values<float>()) x = normal(generator);
  else
    for (rapt::BFloat16& x : t.values<rapt::BFloat16>())
      x = rapt::BFloat16::from(normal(generator));
  return t;
}

// Tensors of a product and its call.
class Problem {
 public:
  Problem(Product product, const Shape& s, const Arithmetic& a)
      : product_(product),
        precision_(a.precision),
        x_(random_normal(generator_, a.dtype, s.rows, s.in)),
        weight_(random_normal(generator_, a.dtype, s.out, s.in)),
        y_(random_normal(generator_, a.dtype, s.rows, s.out)),
        workspace_(rapt::product_workspace_bytes(s.rows, s.in, s.out, rapt::DType::f32, context_)) {
  }
  void call() {
    switch (product_) {
      case Product::y:
        return rapt::multiply(x_, weight_, y_, {.precision = precision_}, context_, workspace_);
      case Product::d_x:
        return rapt::multiply_gradient(y_, weight_, x_, false, context_, workspace_, precision_);
      case Product::d_weight:
        return rapt::add_weight_gradient(y_, x_, weight_, {}, context_, workspace_, precision_);
    }
  }

 private:
  rapt::Context context_{.threads = 1};
  std::mt19937 generator_{1};
  Product product_;
  rapt::Precision precision_;
  rapt::Tensor x_, weight_, y_;
  std::vector<std::byte> workspace_;
};

bench::CaseMaker case_of(Product product, const Shape& s, const Arithmetic& a = {}) {
  const double flops =
      2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
  const std::string name = std::string(name_of(product)) + " " + std::to_string(s.rows) + "x" +
                           std::to_string(s.in) + "->" + std::to_string(s.out) + a.name;
  return {name, flops, [=] {
            const auto problem = std::make_shared<Problem>(product, s, a);
            const double bytes = static_cast<double>(rapt::size_of(a.dtype)) *
                                 static_cast<double>(s.in) * static_cast<double>(s.out);
            return bench::TimedCase{.name = "",
                                    .flops = s.rows == 1 ? 0 : flops,
                                    .bytes_read = s.rows == 1 ? bytes : 0,
                                    .call = [problem] { problem->call(); }};
          }};
}

bool measure_all(const bench::Arguments& arguments) {
  std::vector<bench::CaseMaker> cases;
  for (const Shape& s : kShapes)
    for (const Product product : kProducts) cases.push_back(case_of(product, s));
  for (const Shape& s : kOneRow) cases.push_back(case_of(Product::y, s));
  for (const Arithmetic& a : kOthers) {
    if (a.precision != rapt::Precision::automatic && !differs(a)) continue;
    for (const Shape& s : kCompared)
      for (const Product product : kProducts) cases.push_back(case_of(product, s, a));
  }
  for (const Shape& s : kOneRow) cases.push_back(case_of(Product::y, s, kBFloat16));
  return bench::measure_cases(arguments, "products", cases);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_products [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}

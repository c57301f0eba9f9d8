#pragma once
// The tiles routes for tests of their kernels: by instructions and by emulation, with the error
// that their products may have. The instructions need a machine with the vectors of `amx`;
// elsewhere the emulation is tested alone.
#include "attention/tiles/route_thread.h"
#include "kernels/tile_operands.h"

namespace rapt {
namespace isa_amx {
IsaTables tables() noexcept;
}
namespace isa_amx_emulated {
IsaTables tables() noexcept;
}

using TileKernelsTest = TileTest;

// Can the trap run the rest of the instructions?
inline bool has_vectors_of_amx() { return cpu_has("amx_vectors"); }

using Route = RouteKernels<float>;

struct Routes {
  const char* name;
  DType dtype;
  bool fast;
  Product scores, output;

  Product gradient() const { return {output.b, output.a, output.ranks}; }
  // The weight that the route multiplies: bf16 routes round it, ties away from 0; the others use it
  // as it is.
  double taken(float weight) const {
    if (dtype != DType::bf16) return weight;
    return std::bit_cast<float>((std::bit_cast<uint32_t>(weight) + 0x8000) & 0xFFFF0000);
  }
  const Route& of(const IsaTables& tables) const {
    return *(fast ? tables.f32->fast_tiles : tables.f32->tiles)[static_cast<int>(dtype)];
  }
  const Route& real() const { return of(isa_amx::tables()); }
  const Route& emulated() const { return of(isa_amx_emulated::tables()); }
};
inline const Routes kRoutes[] = {
    {"f32", DType::f32, false, {kRow3, kRow3, 3}, {kRow3, kWeights3, 3}},
    {"bf16", DType::bf16, false, {kRow1, kRow1, 1}, {kRow1, kWeights1, 1}},
    {"f16", DType::f16, false, {kRow2, kRow2, 3}, {kRow2, kWeights3, 3}},
    {"f32, fast", DType::f32, true, {kShortRow2, kShortRow2, 2}, {kShortRow2, kWeights2, 2}},
    {"f16, fast", DType::f16, true, {kRow2, kRow2, 2}, {kRow2, kWeights2, 2}},
};

// The results of a program: operands (compared bit for bit) and numbers (all NaN are equal).
struct Made {
  Image operands, numbers;
};

// Runs program(route) by emulation and, where the machine can, by instructions, and compares what
// both return.
template <class Program>
Made both(const Routes& routes, const Program& program) {
  const auto run = [&](const Route& route) {
    const RouteThread<float> thread(route);
    return program(route);
  };
  const Made emulated = run(routes.emulated());
  if (!has_vectors_of_amx()) return emulated;
  const Made real = run(routes.real());
  EXPECT_EQ(difference(real.operands, emulated.operands, false), "");
  EXPECT_EQ(difference(real.numbers, emulated.numbers, true), "");
  return emulated;
}

// Calls visit(routes, random) `times` times per route.
template <class Visit>
void for_routes(int times, const Visit& visit) {
  for (const Routes& routes : kRoutes) {
    Random random(1);
    for (int i = 0; i < times && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(std::string(routes.name) + ", number " + std::to_string(i));
      visit(routes, random);
    }
  }
}

inline int64_t drawn_length(Random& random, int64_t most) {
  return random.chance(0.3) ? std::min(most, random.pick<int64_t>({1, 16, 31, 32, 33, 64, 65, 96}))
                            : random.between(1, most);
}

// Rows after a packing function; from() points at a row that is a multiple of 32.
struct Packed {
  Block<std::byte> block;
  int64_t stride;
  const std::byte* from(const Route& route, int64_t row) const {
    return block.data() + row * stride * route.element_size;
  }
};
template <class Pack>
Packed packed(const Route& route, const Pack& pack, const StoredRows& rows) {
  Packed to{Block<std::byte>(padded(rows.count) * padded(rows.dims) * route.element_size),
            padded(rows.dims)};
  pack(rows.data, rows.row_stride, rows.dim_stride, rows.count, rows.dims, to.block.data());
  return to;
}

}  // namespace rapt

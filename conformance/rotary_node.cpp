// ONNX RotaryEmbedding, opset 23: rapt's rotary_embedding with the caches of cosines and sines.
//
// A 3-D input [batch, length, heads * dim] is the same memory seen as 4-D. With position_ids the
// caches are [positions, dims / 2], indexed by them; without they are [batch, length, dims / 2].
#include "operators.h"
#include "rapt/rotary.h"

namespace rapt::conformance {

Outputs run_rotary_embedding(const NodeTest& test) {
  const Node& node = test.node;
  require_known(node, {"interleaved", "num_heads", "rotary_embedding_dim"});
  const TensorView x = test.input(0);
  Rotary rotary;
  rotary.dims = node.integer("rotary_embedding_dim", 0);
  rotary.pairs =
      node.integer("interleaved", 0) != 0 ? RotaryPairs::interleaved : RotaryPairs::halves;
  rotary.cos_cache = test.input(1), rotary.sin_cache = test.input(2);
  RotaryPositions positions;
  positions.values = test.input(3);

  const auto by_heads = [&](const TensorView& tensor) {
    return tensor.rank == 3 ? split_heads(tensor, node.integer("num_heads", 0)) : tensor;
  };
  Outputs outputs(1);
  outputs[0] = Tensor(x.dtype, x.dims());
  rotary_embedding(by_heads(x), rotary, positions, by_heads(outputs[0]));
  return outputs;
}

}  // namespace rapt::conformance

#pragma once
// THE CATALOGUE: everything rapt can do along its three axes. To add a variant: write its header,
// name it here, add its test and its page (CONTRIBUTING.md).
//
// Plain type lists: no registration at start-up, nothing for a linker to drop.
#include "rapt/normalizer/entmax.h"
#include "rapt/normalizer/entmax15.h"
#include "rapt/normalizer/relu.h"
#include "rapt/normalizer/sigmoid.h"
#include "rapt/normalizer/softmax.h"
#include "rapt/normalizer/softmax_plus_one.h"
#include "rapt/normalizer/softmax_with_sink.h"
#include "rapt/normalizer/sparsemax.h"
#include "rapt/normalizer/top_k_softmax.h"
#include "rapt/score/alibi.h"
#include "rapt/score/head_scale.h"
#include "rapt/score/kerple_log.h"
#include "rapt/score/log_n.h"
#include "rapt/score/softcap.h"
#include "rapt/score/t5_bias.h"

namespace rapt {

class Causal;
class Window;
class Lengths;
class Boolean;
class Prefix;
class Documents;
class DocumentsByStarts;
class And;
class Or;
class Not;

// Who may attend to whom: include/rapt/mask/.
using Masks =
    TypeList<Causal, Window, Lengths, Boolean, Prefix, Documents, DocumentsByStarts, And, Or, Not>;

// What happens to a score before it is normalised: include/rapt/score/. The scaled dot product
// itself and the additive bias are options of attention.h.
using Scores = TypeList<Softcap, HeadScale, LogN, Alibi, T5Bias, KerpleLog>;

// How a row of scores becomes weights: include/rapt/normalizer/.
using Normalizers = TypeList<Softmax, SoftmaxPlusOne, Sigmoid, Relu, SoftmaxWithSink, Sparsemax,
                             Entmax15, Entmax, TopKSoftmax>;

}  // namespace rapt

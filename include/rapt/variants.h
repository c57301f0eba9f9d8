#pragma once
// THE CATALOGUE: all scores and normalisers of rapt; masks are in masks.h. To add a variant: write
// its header, add its name here, add its test and its page (CONTRIBUTING.md).
//
// These are plain type lists: nothing is registered at start-up, and the linker cannot drop
// anything.
#include "rapt/normalizer/entmax.h"
#include "rapt/normalizer/entmax15.h"
#include "rapt/normalizer/relu.h"
#include "rapt/normalizer/sigmoid.h"
#include "rapt/normalizer/softmax.h"
#include "rapt/normalizer/softmax_plus_one.h"
#include "rapt/normalizer/softmax_with_sink.h"
#include "rapt/normalizer/softpick.h"
#include "rapt/normalizer/sparsemax.h"
#include "rapt/normalizer/top_k_softmax.h"
#include "rapt/score/alibi.h"
#include "rapt/score/head_scale.h"
#include "rapt/score/kerple_log.h"
#include "rapt/score/log_n.h"
#include "rapt/score/softcap.h"
#include "rapt/score/t5_bias.h"
#include "rapt/score/tanh_clip.h"

namespace rapt {

// Functions that change scores before they are normalised: include/rapt/score/. The scaled dot
// product itself and the additive bias are options of attention.h.
using Scores = TypeList<Softcap, HeadScale, LogN, Alibi, T5Bias, KerpleLog, TanhClip>;

// Normalisers, which turn a row of scores into weights: include/rapt/normalizer/.
using Normalizers = TypeList<Softmax, SoftmaxPlusOne, Sigmoid, Relu, SoftmaxWithSink, Sparsemax,
                             Entmax15, Entmax, TopKSoftmax, Softpick>;

}  // namespace rapt

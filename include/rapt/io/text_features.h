#pragma once
// Turns text into vectors without a model, so that attention can be looked at with real words.
//
// A word's row is the sum of features of its letters and of its position (shape [words, dim]):
//
//   x_i = g_i / |g_i| + kPositionWeight * sqrt(2 / dim) * p_i
//
//   g_i[c] = sum of sign(t) over the n-grams t of the word with index(t) = c, n = 1..4
//     The word is lower-cased (A-Z only) and set between two marks, U+0002 and U+0003; n-grams are
//     runs of n of its code points. A mark alone is no n-gram, or all words would share it.
//     h = fmix64(FNV-1a-64(UTF-8 bytes of t)), offset basis 14695981039346656037 (the seed);
//     index = h mod dim; sign = -1 when the highest bit of h is set, else +1.
//     fmix64 (MurmurHash3's finaliser) because the high bits of FNV hardly depend on short input.
//   p_i[2k] = sin(i / 10000^(2k / dim)), p_i[2k + 1] = cos(i / 10000^(2k / dim))
//     Vaswani et al. 2017, section 3.5; sqrt(2 / dim) makes its length 1.
//
// Feature hashing with signs: Weinberger et al. 2009. n-grams with marks: Bojanowski et al. 2017.
// The bits are the same on every machine: all is computed in double by operations that IEEE 754
// rounds exactly (sine and cosine too, not the C library's), and rounded once to f32.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/tensor.h"

namespace rapt {

// Positions add kPositionWeight^2 to a score of 1 for equal words, and less with distance. So equal
// words have the largest weights, wherever they stand; among unrelated words the neighbours have
// about 1.4 times the weight of the others.
inline constexpr double kPositionWeight = 0.5;

// A head_dim that models use; much less, and unrelated words collide.
inline constexpr int64_t kTextDim = 128;

// The scale for softmax(x x^T * scale). With the usual 1 / sqrt(dim) all weights would be nearly
// equal, since rows have a length near 1, not sqrt(dim). At 5 a repetition of a word gets about
// half of the weight of the word itself, words that share a stem ("attend", "attention") get a
// tenth or more of it, and an unrelated word about a hundredth.
inline constexpr double kTextScale = 5.0;

// Words and punctuation marks in order, without the blanks. UTF-8: a code point is never split,
// and each invalid sequence becomes U+FFFD (per maximal subpart, as Unicode recommends).
//   a word: letters, digits and '_', with inner apostrophes ("don't"); numbers keep an inner '.'
//   or ',' ("3.14"); of code points from U+0080 all but the marks and symbols below;
//   by itself: each other ASCII character, general and CJK punctuation, pictographs, and each Han
//   or kana character, since these are written without blanks;
//   combining marks, variation selectors and joiners stay with what they modify.
std::vector<std::string> split_words(std::string_view text);

// f32 [words.size(), dim]. Throws Error(argument) when dim < 1, Error(overflow).
Tensor text_features(std::span<const std::string> words, int64_t dim);

}  // namespace rapt

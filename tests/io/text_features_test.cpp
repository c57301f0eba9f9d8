// Words of a text, and vectors whose attention shows equal, similar and neighbouring words.
#include "rapt/io/text_features.h"

#include <bit>
#include <cmath>

#include "scratch_folder.h"

namespace rapt::test {
namespace {

using Words = std::vector<std::string>;

TEST(SplitWords, WordsAndPunctuation) {
  EXPECT_EQ(split_words(""), Words{});
  EXPECT_EQ(split_words(" \t\r\n "), Words{});
  EXPECT_EQ(split_words("The cat sat."), (Words{"The", "cat", "sat", "."}));
  EXPECT_EQ(split_words("  (a,b)\n"), (Words{"(", "a", ",", "b", ")"}));
  EXPECT_EQ(split_words("wait... what?!"), (Words{"wait", ".", ".", ".", "what", "?", "!"}));
  EXPECT_EQ(split_words("don't 'quote' dogs'"), (Words{"don't", "'", "quote", "'", "dogs", "'"}));
  EXPECT_EQ(split_words("3.14 1,000 v2.x a.b 5."),
            (Words{"3.14", "1,000", "v2", ".", "x", "a", ".", "b", "5", "."}));
  EXPECT_EQ(split_words("head_dim state-of"), (Words{"head_dim", "state", "-", "of"}));
  EXPECT_EQ(split_words(std::string("a\0b", 3)), (Words{"a", "b"}));
}

TEST(SplitWords, BeyondAscii) {
  EXPECT_EQ(split_words("naïve café"), (Words{"naïve", "café"}));
  EXPECT_EQ(split_words("cafe\u0301!"), (Words{"cafe\u0301", "!"}));  // a combining accent
  EXPECT_EQ(split_words("«da» — “so”…"), (Words{"«", "da", "»", "—", "“", "so", "”", "…"}));
  EXPECT_EQ(split_words("l\u2019eau"), (Words{"l\u2019eau"}));
  EXPECT_EQ(split_words("Привет, мир"), (Words{"Привет", ",", "мир"}));
  EXPECT_EQ(split_words("注意力。カタ"), (Words{"注", "意", "力", "。", "カ", "タ"}));
  EXPECT_EQ(split_words("a\u00a0b\u3000c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_words("hi😀😀"), (Words{"hi", "😀", "😀"}));
  EXPECT_EQ(split_words("👩\u200d💻 👍🏽x"), (Words{"👩\u200d💻", "👍🏽", "x"}));
  EXPECT_EQ(split_words("\u0301a"), (Words{"\u0301", "a"}));
  EXPECT_EQ(split_words("🇩🇪🇫🇷 🇪 🇺x"), (Words{"🇩🇪", "🇫🇷", "🇪", "🇺", "x"}));
}

TEST(SplitWords, InvalidUtf8BecomesReplacementCharacters) {
  // Expected values: Python's bytes.decode("utf-8", "replace").
  EXPECT_EQ(split_words("\xff"), (Words{"\ufffd"}));
  EXPECT_EQ(split_words("a\x80z"), (Words{"a", "\ufffd", "z"}));
  EXPECT_EQ(split_words("\xe2\x82"), (Words{"\ufffd"}));             // cut short
  EXPECT_EQ(split_words("\xe2\x82z"), (Words{"\ufffd", "z"}));       //
  EXPECT_EQ(split_words("\xf0\x9f\x98 x"), (Words{"\ufffd", "x"}));  //
  EXPECT_EQ(split_words("\xc0\xaf"), (Words{"\ufffd", "\ufffd"}));   // overlong
  EXPECT_EQ(split_words("\xe0\x80\xaf").size(), 3u);                 // overlong
  EXPECT_EQ(split_words("\xed\xa0\x80").size(), 3u);                 // a surrogate
  EXPECT_EQ(split_words("\xf4\x90\x80\x80").size(), 4u);             // beyond U+10FFFF
  EXPECT_EQ(split_words("\xef\xbf\xbd"), (Words{"\ufffd"}));         // itself, valid
}

// After every lead byte, every pair of bytes gives valid UTF-8 again: splitting the output once
// more changes nothing.
TEST(SplitWords, OutputIsValidUtf8) {
  for (int a = 0x80; a < 0x100; ++a) {
    for (int b = 0; b < 0x100; ++b) {
      for (const int c : {0x78, 0x80, 0xbf, 0xe2}) {
        const std::string text{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        std::string joined;
        const Words words = split_words(text);
        for (const std::string& w : words) joined += w + " ";
        ASSERT_EQ(split_words(joined), words) << a << " " << b << " " << c;
      }
    }
  }
}

double dot(const Tensor& x, int64_t i, int64_t j) {
  const auto v = x.values<float>();
  double sum = 0;
  for (int64_t c = 0; c < x.dim(1); ++c) sum += double{v[i * x.dim(1) + c]} * v[j * x.dim(1) + c];
  return sum;
}

// softmax(x x^T * kTextScale), [n, n].
std::vector<std::vector<double>> self_attention(const Tensor& x) {
  std::vector<std::vector<double>> rows;
  for (int64_t i = 0; i < x.dim(0); ++i) {
    std::vector<double> row;
    double sum = 0;
    for (int64_t j = 0; j < x.dim(0); ++j) {
      row.push_back(std::exp(kTextScale * (dot(x, i, j) - dot(x, i, i))));
      sum += row.back();
    }
    for (double& p : row) p /= sum;
    rows.push_back(row);
  }
  return rows;
}

// Computes the header's formula again with the C library's functions.
TEST(TextFeatures, FollowsTheFormula) {
  const Words words = {"Ab", "c"};
  for (const int64_t dim : {1, 2, 7, 64}) {
    const Tensor x = text_features(words, dim);
    const auto width = static_cast<double>(dim);
    for (int64_t i = 0; i < 2; ++i) {
      std::vector<double> g(dim, 0.0);
      const std::string marked = i == 0 ? "\x02"
                                          "ab\x03"
                                        : "\x02"
                                          "c\x03";
      for (size_t n = 1; n <= 4; ++n) {
        for (size_t at = 0; at + n <= marked.size(); ++at) {
          const std::string gram = marked.substr(at, n);
          if (gram == "\x02" || gram == "\x03") continue;
          uint64_t h = 14695981039346656037u;
          for (const char c : gram) h = (h ^ static_cast<uint64_t>(c)) * 1099511628211u;
          h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
          h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
          h ^= h >> 33;
          g[h % dim] += (h >> 63) != 0 ? -1 : 1;
        }
      }
      double length = 0;
      for (const double v : g) length += v * v;
      length = length == 0 ? 1 : std::sqrt(length);
      for (int64_t c = 0; c < dim; ++c) {
        const double angle =
            static_cast<double>(i) / std::pow(10000.0, static_cast<double>(c - c % 2) / width);
        const double p = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
        EXPECT_NEAR(x.values<float>()[i * dim + c],
                    g[c] / length + kPositionWeight * std::sqrt(2.0 / width) * p, 1e-7);
      }
    }
  }
}

TEST(TextFeatures, PositionsAreAccurateFarOut) {
  constexpr int64_t kWords = 40000, kDim = 8;
  const Tensor x = text_features(Words(kWords, "w"), kDim);
  const auto v = x.values<float>();
  const double weight = kPositionWeight * std::sqrt(2.0 / kDim);
  for (int64_t i = 0; i < kWords; i += 7) {
    for (int64_t c = 0; c < kDim; ++c) {
      const double a =
          static_cast<double>(i) / std::pow(10000.0, static_cast<double>(c - c % 2) / kDim);
      const double moved = c % 2 == 0 ? std::sin(a) : std::cos(a) - 1;  // from position 0
      ASSERT_NEAR(v[i * kDim + c] - v[c], weight * moved, 2e-7) << i << " " << c;
    }
  }
}

// The bits are part of the contract, so that pictures in the documentation do not change.
TEST(TextFeatures, SameBitsEverywhere) {
  const Tensor x =
      text_features(split_words("The cat attends to the café, naïvely: 3.14 注意"), 32);
  uint64_t digest = 14695981039346656037u;
  for (const float f : x.values<float>()) {
    digest = (digest ^ std::bit_cast<uint32_t>(f)) * 1099511628211u;
  }
  EXPECT_EQ(digest, 0x5ac394e683316510u) << std::hex << digest;
}

TEST(TextFeatures, EqualWordsFirstThenAlikeThenNear) {
  const Words words = split_words(
      "The cat sat on the mat, because the cat attends to attention; "
      "we attend to what the attention heads attend.");
  const Tensor x = text_features(words, kTextDim);
  const auto weights = self_attention(x);
  const auto lower = [&](int64_t i) {
    std::string w = words[i];
    for (char& c : w) c = static_cast<char>(std::tolower(c));
    return w;
  };
  // Weights relative to the weight of the word itself.
  double least_equal = 1e9, least_alike = 1e9, unrelated[2] = {}, counts[2] = {};
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < x.dim(0); ++j) {
      if (i == j) continue;
      const double relative = weights[i][j] / weights[i][i];
      if (lower(i) == lower(j)) {
        least_equal = std::min(least_equal, relative);
      } else if (lower(i).substr(0, 5) == "atten" && lower(j).substr(0, 5) == "atten") {
        least_alike = std::min(least_alike, relative);
      } else {
        const bool neighbours = std::abs(i - j) == 1;
        unrelated[neighbours] += relative;
        counts[neighbours] += 1;
      }
    }
  }
  const double far = unrelated[0] / counts[0], near = unrelated[1] / counts[1];
  EXPECT_GT(least_equal, 0.4);
  EXPECT_GT(least_alike, 5 * far);
  EXPECT_LT(far, 0.02);
  EXPECT_GT(near, 1.2 * far);
}

TEST(TextFeatures, Limits) {
  EXPECT_EQ(to_string(text_features(Words{}, 4).dims()), "[0, 4]");
  for (const int64_t dim : {0, -1}) {
    expect_error(
        ErrorCode::argument, [&] { text_features(Words{"a"}, dim); }, "dim");
  }
  const Words odd = {"", "\xff", std::string(10000, 'x'), "\x02\x03"};
  for (const int64_t dim : {1, 2, 3, 33}) {
    const Tensor x = text_features(odd, dim);
    for (const float f : x.values<float>()) EXPECT_TRUE(std::isfinite(f));
  }
}

}  // namespace
}  // namespace rapt::test

// Outputs and maps of tiny random encoders, against those of transformers in float64
// (data/make_golden.py). The error may be twice that of transformers' own float32, and the rounding
// of the largest result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "io/scratch_folder.h"
#include "rapt/io/tensor_file.h"
#include "rapt/model/encoder_model.h"

namespace rapt::test {
namespace {

class EncoderGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  EncoderGoldenTest()
      : folder_(std::string(RAPT_TEST_DATA) + "/" + GetParam()),
        golden_(open_tensor_file(folder_ + "/golden.safetensors")),
        encoder_(model::load_encoder(folder_)) {}

  LoadedTensor golden(const std::string& name, size_t text) const {
    return load(*golden_.find(name + std::to_string(text)));
  }
  // part: 0 of outputs, 1 of maps, which are `exact`.
  double allowed(size_t part, const TensorView& exact) const {
    const auto* const values = static_cast<const double*>(exact.data);
    double largest = 0;
    for (int64_t i = 0; i < exact.count(); ++i) largest = std::max(largest, std::fabs(values[i]));
    return 2 * static_cast<const double*>(load(*golden_.find("error")).view().data)[part] +
           largest * 0x1p-24;
  }
  std::vector<int64_t> integers(const std::string& name, size_t text) const {
    if (golden_.find(name + std::to_string(text)) == nullptr) return {};
    const LoadedTensor loaded = golden(name, text);
    const auto* const from = static_cast<const int64_t*>(loaded.view().data);
    return {from, from + loaded.view().count()};
  }

  std::string folder_;
  TensorFile golden_;
  model::EncoderModel encoder_;
};

void append(std::vector<int64_t>& to, const std::vector<int64_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void expect_same_values(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.count(), b.count());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count()) * sizeof(float)), 0);
}

double largest_error(std::span<const float> found, const TensorView& expected, int64_t from = 0) {
  const auto* const exact = static_cast<const double*>(expected.data) + from;
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i)
    largest = std::max(largest, std::fabs(found[i] - exact[i]));
  return largest;
}

TEST_P(EncoderGoldenTest, OutputsAndMapsAreThoseOfTransformers) {
  for (size_t text = 0; text < 2; ++text) {
    const std::vector<int64_t> ids = integers("ids", text), types = integers("types", text);
    const LoadedTensor output = golden("output", text), maps = golden("maps", text);
    int64_t layers = 0;
    model::EncoderCaptures captures;
    captures.weights = WeightsRequest{};
    captures.on_layer = [&](int64_t layer, AttentionResult& result) {
      EXPECT_EQ(layer, layers++);
      EXPECT_LE(largest_error(result.weights.values<float>(), maps.view(),
                              layer * result.weights.count()),
                allowed(1, maps.view()));
    };
    const Tensor found = encode(encoder_, {ids, types, {}}, {}, captures);
    EXPECT_EQ(layers, 2);
    ASSERT_EQ(found.count(), output.view().count());
    EXPECT_LE(largest_error(found.values<float>(), output.view()), allowed(0, output.view()));
    // Without captures the same bits.
    expect_same_values(encode(encoder_, {ids, types, {}}), found);
  }
}

TEST_P(EncoderGoldenTest, ATextHasTheSameBitsAmongOthers) {
  std::vector<int64_t> ids, types, starts = {0};
  for (const size_t text : {size_t{0}, size_t{1}, size_t{0}}) {
    append(ids, integers("ids", text));
    append(types, integers("types", text));
    starts.push_back(std::ssize(ids));
  }
  const Tensor packed = encode(encoder_, {ids, types, starts}, {.threads = 2});
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}}) {
    const size_t text = at % 2;
    const std::vector<int64_t> own_ids = integers("ids", text), own = integers("types", text);
    const Tensor alone = encode(encoder_, {own_ids, own, {}});
    expect_same_values(alone, Tensor::copy_of(packed.view().slice(0, starts[at], starts[at + 1])));
  }
}

TEST_P(EncoderGoldenTest, WhatTheTablesLackIsRejected) {
  const auto rejects = [&](const model::TokenBatch& batch, const std::string& part) {
    expect_error(
        ErrorCode::argument, [&] { encode(encoder_, batch); }, part);
  };
  const std::vector<int64_t> beyond = {3, 50}, below = {-1}, one = {3}, many(25, 3), bad = {0, 2};
  rejects({beyond, {}, {}}, "the id 50 at 1; the model has 0 to 49");
  rejects({below, {}, {}}, "the id -1 at 0");
  rejects({many, {}, {}}, "a text has 25");
  rejects({one, {}, bad}, "starts from 0 to 1");
  rejects({one, beyond, {}}, "a type for each of the 1 ids");
  EXPECT_EQ(encode(encoder_, {}).count(), 0);
}

// A token of padding within a text has the place before the first, and is not counted: as the same
// embeddings would be at places in turn.
TEST(EncoderPlaces, PaddingOfRobertaIsNotCounted) {
  const std::string folder = std::string(RAPT_TEST_DATA) + "/roberta";
  const model::EncoderModel roberta = model::load_encoder(folder);
  model::EncoderModel renamed = model::load_encoder(folder);
  const int64_t first = roberta.spec.first_position, padding = first - 1, other = 9;
  const std::vector<int64_t> ids = {5, padding, 7, 6}, names = {5, other, 7, 6};
  Tensor tokens = Tensor::copy_of(roberta.tokens), places = Tensor::copy_of(roberta.places);
  const auto copy_row = [&](const TensorView& table, int64_t from, Tensor& copy, int64_t to) {
    const int64_t features = table.shape[1];
    std::copy_n(static_cast<const float*>(table.data) + from * features, features,
                copy.values<float>().data() + to * features);
  };
  copy_row(roberta.tokens, padding, tokens, other);
  for (int64_t i = 0; i < 3; ++i)
    copy_row(roberta.places, i == 0 ? padding : first + i, places, first + 1 + i);
  renamed.tokens = tokens.view();
  renamed.places = places.view();
  expect_same_values(encode(roberta, {ids, {}, {}}), encode(renamed, {names, {}, {}}));
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderGoldenTest,
                         testing::Values("bert", "roberta", "distilbert"));

}  // namespace
}  // namespace rapt::test

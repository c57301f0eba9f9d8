// Problem descriptors: their meaning, their canonical form, and the positions of their errors.
#include <gtest/gtest.h>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"
#include "rapt/catalogue.h"

namespace check {
namespace {

TEST(Descriptor, SaysWhatItSays) {
  const Descriptor d =
      parse_descriptor("b2h8/2q1024k512d64v32:bf16>f32:mask=window(256,0)&lengths:bias=0.25");
  EXPECT_EQ(d.leading, (Dims{2, 8}));
  EXPECT_EQ(d.query.leading, (Dims{2, 8}));
  EXPECT_EQ(d.key.leading, (Dims{2, 2}));
  EXPECT_EQ(d.value.leading, (Dims{2, 2}));
  EXPECT_EQ(d.q_len, 1024);
  EXPECT_EQ(d.k_len, 512);
  EXPECT_EQ(d.head_dim, 64);
  EXPECT_EQ(d.value_dim, 32);
  EXPECT_EQ(d.dtype, DType::bf16);
  EXPECT_EQ(d.output_dtype, DType::f32);
  ASSERT_EQ(d.masks.size(), 2u);
  EXPECT_STREQ(d.masks[0].declaration->name, "window");
  EXPECT_EQ(d.masks[0].arguments, "256,0");
  EXPECT_FALSE(d.masks[0].has_tensors);
  EXPECT_STREQ(d.masks[1].declaration->name, "lengths");
  EXPECT_EQ(d.masks[1].dims, Dims{2});
  EXPECT_TRUE(d.has_bias);
  EXPECT_EQ(d.bias_dims, (Dims{1024, 512}));
  EXPECT_EQ(d.excluded_by_bias, 0.25);
}

// Pairs of a descriptor and its canonical form.
TEST(Descriptor, HasOneCanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"q4k5d6", "q4k5d6"},
      {"b3q4k5d6", "h3q4k5d6"},
      {"[2,8]q4k5d6", "b2h8q4k5d6"},
      {"[2,1,3]h4/2q4k5d6v6", "[2,1,3]h4/2q4k5d6"},
      {"b2h8/8q1k1d1", "b2h8q1k1d1"},
      {"b0h2q1k0d1v0", "b0h2q1k0d1v0"},
      {"q4k5d6:f32:seed=0:magnitude=1:precision=automatic:norm=softmax", "q4k5d6"},
      {"q4k5d6:seed=7:f16", "q4k5d6:f16:seed=7"},
      {"q4k5d6:norm=sigmoid", "q4k5d6:norm=sigmoid"},
      {"q4k5d6:norm=sigmoid(bias=-5e0)", "q4k5d6:norm=sigmoid(-5)"},
      {"q4k5d6:norm=relu(divisor=7,power=2)", "q4k5d6:norm=relu(2,7)"},
      {"q4k5d6:norm=relu(1,0.25)", "q4k5d6:norm=relu(divisor=0.25)"},
      {"q4k5d6:norm=softmax_with_sink(-inf)", "q4k5d6:norm=softmax_with_sink(-inf)"},
      {"q4k5d6:norm=entmax(alphas=1.2)", "q4k5d6:norm=entmax(alphas=1.2)"},
      {"q4k5d6:precision=fma:method=mean()", "q4k5d6:method=mean:precision=fma"},
      {"q4k5d6:bf16>bf16", "q4k5d6:bf16"},
      {"b2h4q1k1d1:key=[2,2]:value=[2,2]", "b2h4/2q1k1d1"},
      {"b2h4q1k1d1:key=[1,4]", "b2h4q1k1d1:key=[1,4]"},
      {"b2h4q1k1d1:query=[]", "b2h4q1k1d1:query=[]"},
      {"q4k5d6:layout=dense,dense,dense", "q4k5d6"},
      {"q4k5d6:layout=padded,padded,padded", "q4k5d6:layout=padded"},
      {"q4k5d6:layout=strided+broadcast(0),dense,broadcast(1)",
       "q4k5d6:layout=strided+broadcast(0),dense,broadcast(1)"},
      {"q4k5d6:mask=causal(0,top-left)", "q4k5d6:mask=causal"},
      {"q4k5d6:mask=causal(bottom-right,-3)", "q4k5d6:mask=causal(bottom-right,-3)"},
      {"q4k5d6:mask=boolean(0.5,[4,5])", "q4k5d6:mask=boolean"},
      {"q4k5d6:mask=boolean([1,5],0.25)", "q4k5d6:mask=boolean(0.25,[1,5])"},
      {"b2h3q4k5d6:mask=lengths([2])&prefix([2,1])&prefix(3)",
       "b2h3q4k5d6:mask=lengths&prefix([2,1])&prefix(3)"},
      {"q4k5d6:mask=(causal)", "q4k5d6:mask=causal"},
      {"q4k5d6:mask=(causal&prefix(2))", "q4k5d6:mask=(causal&prefix(2))"},
      {"q4k5d6:mask=causal|prefix(2)&documents(3)", "q4k5d6:mask=causal|(prefix(2)&documents(3))"},
      {"q4k5d6:mask=!!causal&!(causal|prefix(1))", "q4k5d6:mask=!!causal&!(causal|prefix(1))"},
      {"q4k5d6:mask=(causal|prefix(1))&window(1,-1,top-left)",
       "q4k5d6:mask=(causal|prefix(1))&window(1)"},
      {"q4k5d6:mask=window(right=2)&prefix&documents(4)",
       "q4k5d6:mask=window(right=2)&prefix&documents"},
      {"q4k5d6:mask=documents_by_starts(100000)", "q4k5d6:mask=documents_by_starts(100000)"},
      {"b2h3q4k5d6:mask=causal([2],anchor=bottom-right)&documents([2,1],3)",
       "b2h3q4k5d6:mask=causal(bottom-right,[2])&documents(3,[2,1])"},
      {"q4k5d6:bias=f32,[1,5]:f32", "q4k5d6:bias=[1,5]"},
      {"q4k5d6:bias=f32:bf16", "q4k5d6:bf16:bias=f32"},
      {"q4k5d6:score=softcap(3):bias=before,0.5,[1,5]",
       "q4k5d6:bias=[1,5],0.5,before:score=softcap(3)"},
      {"q4k5d6:scale=-0.5:score=softcap(3e1)", "q4k5d6:scale=-0.5:score=softcap(30)"},
      {"h2q4k5d6:score=softcap(cap=3),head_scale", "h2q4k5d6:score=softcap(3),head_scale"},
      {"b2h3q4k5d6:score=head_scale([3]),head_scale([]),head_scale([2,1])",
       "b2h3q4k5d6:score=head_scale,head_scale([]),head_scale([2,1])"},
      {"h2q4k5d6:score=alibi([2],bottom-right,signed)",
       "h2q4k5d6:score=alibi(signed,bottom-right)"},
      {"h2q4k5d6:score=alibi(absolute,[1],anchor=bottom-right)",
       "h2q4k5d6:score=alibi(bottom-right,[1])"},
      {"q4k5d6:score=log_n(count=keys,length=16)", "q4k5d6:score=log_n(16)"},
      {"h2q4k5d6:score=t5_bias([2,32],max_distance=128)", "h2q4k5d6:score=t5_bias"},
      {"h2q4k5d6:score=t5_bias(64,[8],past)", "h2q4k5d6:score=t5_bias(64,past,[8])"},
      {"h2q4k5d6:score=kerple_log(top-left)", "h2q4k5d6:score=kerple_log"},
      {"q4k5d6:relative=values+keys(8,center=4,top-left)", "q4k5d6:relative=keys+values(8)"},
      {"b2h3q4k5d6:relative=keys[3]+content[]+position[2,1](5,bottom-right,log=2..9,center=0)",
       "b2h3q4k5d6:relative=keys+content[]+position[2,1](5,center=0,log=2..9,bottom-right)"},
      {"q4k5d6:relative=content", "q4k5d6:relative=content"},
      {"q4k5d6:rows=rotary", "q4k5d6:rows=rotary"},
      {"q4k5d6:rows=rotary(dims=6,theta=1e4,query=0,key=0+1i)", "q4k5d6:rows=rotary"},
      {"q4k5d6:seed=1:rows=cosine(1e-12)+rotary(query-only,query=-3-2i,interleaved,dims=4)",
       "q4k5d6:rows=cosine+rotary(interleaved,dims=4,query=-3-2i,query-only):seed=1"},
      {"q4k5d6:rows=cosine(0.5)+rotary(key=7+0i,magnitude=2,theta=100)",
       "q4k5d6:rows=cosine(0.5)+rotary(theta=100,magnitude=2,key=7+0i)"},
      {"q4k5d6:weights(0..4)", "q4k5d6:weights"},
      {"h3q4k5d6:weights([3,1],heads=[2,0]):entropy:received:top_k(5):map(2,2,max,heads=[1])",
       "h3q4k5d6:weights([3,1],heads=[2,0]):map(2,2,max,heads=[1]):top_k(5):entropy:received"},
      {"q4k5d6:invariant:packed=3:precision=fma", "q4k5d6:precision=fma:invariant:packed=3"},
      {"q4k5d6:precision=fast:f16", "q4k5d6:f16:precision=fast"},
      {"b2h3q4k6d6:cache=linear:packed=3", "b2h3q4k6d6:packed=3:cache=linear"},
      {"b2h4/2q4k6d6:seed=1:cache=circular:rows=rotary(query-only)",
       "b2h4/2q4k6d6:rows=rotary(query-only):cache=circular:seed=1"},
      {"h2q4k6d6:cache=pages(3)", "h2q4k6d6:cache=pages(3)"},
      {"h2q4k6d6:cache=pages(2,shared,circular):dropout=0.5",
       "h2q4k6d6:cache=pages(2,circular,shared):dropout=0.5"},
      {"h2q4k6d6:packed=3:cache=pages(6,shared):set=key[2,1,5,*]=nan",
       "h2q4k6d6:packed=3:cache=pages(6,shared):set=key[2,1,5,*]=nan"},
      {"q4k5d6:entropy:dropout=1e-1,7", "q4k5d6:dropout=0.1,7:entropy"},
      {"q4k5d6:dropout=0.5,0", "q4k5d6:dropout=0.5"},
      {"q4k5d6:backward=two,lse:entropy", "q4k5d6:entropy:backward=lse,two"},
      {"q4k5d6:f16:backward=lse,two,f32", "q4k5d6:f16:backward=lse,f32,two"},
      {"q4k5d6:dropout=0,18446744073709551615", "q4k5d6"},
      {"q4k5d6:seed=1:keys=equal:magnitude=2", "q4k5d6:magnitude=2:keys=equal:seed=1"},
      {"h2q4k5d6:set=key[1,4,*]=nan,value[0,0,5]=-inf:keys=rising",
       "h2q4k5d6:keys=rising:set=key[1,4,*]=nan,value[0,0,5]=-inf"},
      {"q4k5d6:set=d_lse[3]=1e30,d_output[0,0]=inf:backward=lse",
       "q4k5d6:backward=lse:set=d_lse[3]=1e+30,d_output[0,0]=inf"},
      {"q4k5d6:set=d_weights[1,4]=nan:weights(2..4)",
       "q4k5d6:weights(2..4):set=d_weights[1,4]=nan"},
  };
  for (const auto& [written, canonical] : cases) {
    SCOPED_TRACE(written);
    const Descriptor read = parse_descriptor(written);
    EXPECT_EQ(to_string(read), canonical);
    EXPECT_EQ(parse_descriptor(canonical), read);
  }
}

TEST(Descriptor, ReadsEveryExample) {
  const auto expect_read = [](std::span<const rapt::Declaration* const> declarations,
                              const std::string& field) {
    for (const rapt::Declaration* declaration : declarations)
      for (size_t n = 0; n < std::max<size_t>(declaration->examples.size(), 1); ++n) {
        const std::string text = "h2q4k5d6:" + field + "=" + example_text(*declaration, n);
        SCOPED_TRACE(text);
        const Descriptor read = parse_descriptor(text);
        EXPECT_EQ(parse_descriptor(to_string(read)), read);
      }
  };
  expect_read(leaf_masks(), "mask");
  expect_read(rapt::score_declarations(), "score");
  expect_read(rapt::normalizer_declarations(), "norm");
  expect_read(rapt::method_declarations(), "method");
}

TEST(Descriptor, ErrorsNameTheColumn) {
  struct {
    const char* text;
    int column;
    const char* expected;
  } const cases[] = {
      {"", 1, "expected b, h, '[' or q and a number, got the end"},
      {"b2h8", 5, "expected q, got the end"},
      {"x4k5d6", 1, "expected b, h"},
      {"q4k5", 5, "expected 'd', got the end"},
      {"q4k5d0", 6, "expected head_dim from 1"},
      {"q-1k5d6", 2, "expected the number of queries from 0"},
      {"q99999999999999999999k5d6", 2, "expected the number of queries from 0"},
      {"h8/3q4k5d6", 5, "expected a number of key heads that divides 8, got 'q4k5d6'"},
      {"h8/0q4k5d6", 4, "expected the number of key heads from 1"},
      {"[1,2,3,4,5,6,7,8,9]q4k5d6", 18, "expected at most 8 leading dimensions"},
      {"q4k5d6 ", 7, "expected ':'"},
      {"q4k5d6:", 8, "expected a field"},
      {"q4k5d6:colour=red", 8, "expected a field"},
      {"q4k5d6:f32:f64", 12, "expected a field"},
      {"q4k5d6:entropy:entropy", 16, "expected every field once"},
      {"q4k5d6:f32>bf16", 12, "expected the inputs' dtype, or f32"},
      {"q4k5d6:mask=", 13, "expected a mask"},
      {"q4k5d6:mask=casual", 13, "expected a mask"},
      {"q4k5d6:mask=causal&", 20, "expected a mask"},
      {"q4k5d6:mask=(causal", 20, "expected ')', got the end"},
      {"q4k5d6:mask=and(causal)", 13, "expected a mask"},
      {"q4k5d6:mask=window(4,0,1)", 20, "no use for \"1\""},
      {"q4k5d6:mask=window(-2,0)", 20, "left = -2 is out of range"},
      {"q4k5d6:mask=prefix(lengths=x)", 20, "no use for \"lengths=x\""},
      {"q4k5d6:mask=documents(0)", 23, "expected the number of documents from 1"},
      {"q4k5d6:mask=boolean(2)", 21, "expected a density from 0 to 1"},
      {"q4k5d6:mask=boolean(nan)", 21, "expected a density from 0 to 1"},
      {"q4k5d6:mask=boolean([4,6])", 21, "expected the last dimensions of [4,5]"},
      {"b2q4k5d6:mask=lengths([3])", 23, "expected the first leading dimensions of [2]"},
      {"q4k5d6:layout=sideways", 15, "expected dense, padded"},
      {"q4k5d6:layout=broadcast(2)", 15, "expected broadcast() of a dimension"},
      {"q4k5d6:bias=[4,9]", 13, "expected at least the last two dimensions of [4,5]"},
      {"q4k5d6:bias=f16", 13, "expected the query's dtype, or f32"},
      {"q4k5d6:bias=before", 13, "expected no before without a score"},
      {"q4k5d6:bias=before,before:score=softcap(3)", 20, "expected f32, f64, bf16 or f16"},
      {"q4k5d6:scale=inf", 14, "expected a scale"},
      {"q4k5d6:score=sofcap(3)", 14, "expected a score: softcap, head_scale"},
      {"q4k5d6:score=softcap(0)", 22, "cap = 0 is out of range; expected 1e-30"},
      {"q4k5d6:score=softcap", 21, "cap is missing"},
      {"q4k5d6:score=softcap(3", 23, "expected ')', got the end"},
      {"q4k5d6:score=softcap(3,[2])", 22, "no use for \"[2]\""},
      {"q4k5d6:score=log_n(position,1)", 20, "length is 1"},
      {"h2q4k5d6:score=alibi(signed,sideways)", 22, "no use for \"sideways\""},
      {"h2q4k5d6:score=alibi(heads=4)", 22, "expected one of them"},
      {"h2q4k5d6:score=alibi(slopes=4)", 22, "no use for \"slopes=4\""},
      {"h2q4k5d6:score=head_scale([3])", 27, "expected the last leading dimensions of [2]"},
      {"h2q4k5d6:score=t5_bias([])", 24, "a number of entries"},
      {"h2q4k5d6:score=t5_bias([7])", 24, "expected an even number of at least 4"},
      {"h2q4k5d6:score=t5_bias([8],max_distance=2)", 24, "max_distance is 2"},
      {"q4k5d6:relative=", 17, "expected keys, queries, values, content and position"},
      {"q4k5d6:relative=keys+keys(3)", 22, "each once"},
      {"q4k5d6:relative=keys", 21, "expected '('"},
      {"q4k5d6:relative=keys(0)", 22, "expected the number of distances from 1"},
      {"q4k5d6:relative=keys(3,center=3)", 31, "the row of distance 0 from 0 to 2"},
      {"q4k5d6:relative=keys(3,log=1..9)", 28, "expected distances that have a row each from 2"},
      {"q4k5d6:relative=keys(3,log=4..5)", 31, "expected the distance of the last row from 13"},
      {"q4k5d6:relative=values+position(3)", 17, "expected keys beside position"},
      {"q4k5d6:relative=content(5,center=2)", 24, "expected ':'"},  // content has no table rows
      {"h2q4k5d6:relative=keys[3](3)", 23, "expected the last leading dimensions of [2]"},
      {"q4k5d6:backward=two:relative=content", 17, "expected one pass beside relative"},
      {"q4k5d6:rows=", 13, "expected cosine, rotary, or both in this order"},
      {"q4k5d6:rows=rotary+cosine", 20, "expected cosine, rotary, or both in this order"},
      {"q4k5d6:rows=cosine+cosine", 20, "expected cosine, rotary, or both in this order"},
      {"q4k5d6:rows=cosine(0)", 20, "expected the least length"},
      {"q4k5d5:rows=rotary", 13, "expected an even number of dims that turn, at most 5"},
      {"q4k5d6:rows=rotary(dims=3)", 13, "expected an even number of dims"},
      {"q4k5d6:rows=cosine+rotary(dims=8)", 20, "expected an even number of dims"},
      {"q4k5d6:rows=rotary(theta=1)", 26, "expected a base from 2"},
      {"q4k5d6:rows=rotary(query=x)", 26, "expected the position of row 0"},
      {"q4k5d6:rows=rotary(query=1+2)", 29, "expected 'i'"},
      {"q4k5d6:rows=rotary(key=2,query-only)", 24, "expected no positions of keys"},
      {"q4k5d6:rows=rotary()", 20, "expected interleaved, dims, theta"},
      {"q4k5d6:relative=content:rows=cosine", 8, "expected no relative beside rows"},
      {"q4k5d6:norm=hardmax", 13,
       "expected a normaliser: softmax, softmax_plus_one, sigmoid, relu, softmax_with_sink"},
      {"q4k5d6:norm=softmax(1)", 21, "no use for \"1\""},
      {"q4k5d6:norm=sigmoid(", 21, "expected ')', got the end"},
      {"q4k5d6:norm=sigmoid(slope=1)", 21, "no use for \"slope=1\""},
      {"q4k5d6:norm=sigmoid(1,2)", 21, "no use for \"2\""},
      {"q4k5d6:norm=sigmoid(1", 22, "expected ')'"},
      {"q4k5d6:norm=relu(power=1.5)", 18, "no use for \"power=1.5\""},
      {"q4k5d6:norm=relu(2,divisor=0)", 18, "divisor = 0 is out of range"},
      {"q4k5d6:norm=softmax_with_sink", 30, "sinks is missing"},
      {"q4k5d6:norm=softmax_with_sink(nan)", 31, "expected a number for the tensor"},
      {"q4k5d6:norm=entmax(1.5,alphas=1.5)", 20, "expected one of them"},
      {"q4k5d6:method=meen", 15, "expected a method: mean"},
      {"q4k5d6:method=mean(1)", 20, "no use for \"1\""},
      {"q4k5d6:method=mean(", 20, "expected ')', got the end"},
      {"q4k5d6:weights([4])", 16, "expected a query below 4"},
      {"q4k5d6:weights(3..2)", 19, "expected a query from 3 to 4"},
      {"h2q4k5d6:weights(heads=[2])", 24, "expected a head below 2"},
      {"q4k5d6:map(5,1)", 12, "expected rows of the map from 1 to 4"},
      {"q4k5d6:map(0,1)", 12, "expected rows of the map from 1 to 4"},
      {"q4k5d6:top_k(6)", 14, "expected top_k from 1 to 5"},
      {"q4k5d6:dropout", 15, "expected '='"},
      {"q4k5d6:backward", 16, "expected '='"},
      {"q4k5d6:backward=", 17, "expected lse, f32 and two"},
      {"q4k5d6:backward=lse,lse", 21, "expected lse, f32 and two, each once"},
      {"q4k5d6:backward=f32", 17, "expected f32 for bf16 and f16"},
      {"q4k5d6:dropout=1", 16, "expected a probability from 0 to below 1"},
      {"q4k5d6:dropout=0.1,", 20, "expected a seed"},
      {"q4k5d6:dropout=0.1,-1", 20, "expected a seed"},
      {"q4k5d6:keys=falling", 13, "expected 'rising'"},
      {"q4k5d6:set=keys[0,0]=nan", 12, "expected query, key, value, bias, d_output"},
      {"q4k5d6:set=key[0,0]=red", 21, "expected nan, inf, -inf or a number"},
      {"q4k5d6:set=key[*,0]=nan", 17, "expected ']='"},
      {"q4k5d6:set=key[5,0]=nan", 12, "expected elements that the problem has, not key[5,0]=nan"},
      {"q4k5d6:set=key[0]=nan", 12, "expected elements that the problem has"},
      {"q4k5d6:set=bias[0,0]=nan", 12, "expected elements that the problem has"},
      {"q4k5d6:packed=0", 15, "expected the number of sequences from 1"},
      {"q4k5d6:packed=2:bias", 21, "expected neither a bias nor"},
      {"q4k5d6:packed=2:weights", 24, "expected neither weights nor a map"},
      {"b2q4k6d6:cache=paged", 16, "expected linear, circular or pages(N)"},
      {"b2q4k6d6:cache=pages(0)", 22, "expected the number of keys of a page from 1"},
      {"b2q4k6d6:cache=pages(4)", 22, "expected a number of keys that divides 6"},
      {"b2q4k6d6:cache=pages(3,linear)", 24, "expected circular and shared, each once"},
      {"b2q4k6d6:cache=pages(3,shared,shared)", 31, "expected circular and shared, each once"},
      {"b2q4k6d6:cache=pages(3", 23, "expected ')'"},
      {"b2q4k0d6:cache=linear", 16, "expected a problem with keys"},
      {"q4k6d6:cache=linear", 14, "expected packed, or one first leading dimension"},
      {"b2h2q4k6d6:key=[1,2]:cache=linear", 28, "expected packed, or one first leading dimension"},
      {"b0q4k6d6:cache=linear", 16, "expected packed, or one first leading dimension"},
      {"b2q4k6d6:cache=linear:bias", 16, "expected neither a bias nor"},
      {"b2q4k6d6:mask=lengths:cache=linear", 29, "expected neither a bias nor"},
      {"b2q4k6d6:map(2,2,max):cache=linear", 29, "expected no map"},
      {"q4k6d6:packed=2:cache=linear:received", 23, "expected no received"},
      {"b2q4k6d6:cache=linear:rows=cosine", 16, "expected no rows but rotary(query-only)"},
      {"b2q4k6d6:cache=linear:rows=rotary", 16, "expected no rows but rotary(query-only)"},
      {"b2q4k6d6:cache=linear:rows=rotary(query=3,query-only)", 16,
       "expected no rows but rotary(query-only)"},
      {"b2q4k6d6:cache=linear:relative=content", 16, "expected no relative beside cache"},
      {"b2q4k6d6:cache=linear:backward=lse", 16, "expected no backward beside cache"},
      {"b2q4k6d6:cache=linear:layout=dense,broadcast(0),dense", 16,
       "expected no broadcast() of key and value"},
      {"b2q4k6d6:packed=2:cache=linear:set=key[5,0]=nan", 36, "expected elements that"},
      {"b2q4k1099511627776d1048576:packed=9:cache=linear", 43, "whose size fits into 64 bits"},
      {"q4k5d6:f64:bias=f32", 17, "expected the query's dtype, or f32 for bf16 and f16"},
      {"b2h4q4k5d6:key=[3,4]", 16, "expected leading dimensions of query, key and value"},
      {"h1099511627776q1099511627776k1099511627776d1", 1, "expected sizes whose product fits"},
      // A problem without elements, but with more heads than 64 bits can count.
      {"[1099511627776,1099511627776,0]q1k1d1", 1, "expected sizes whose product fits"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    try {
      parse_descriptor(c.text);
      ADD_FAILURE() << "accepted";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::argument);
      const std::string message = error.what();
      const std::string place = "column " + std::to_string(c.column) + ": ";
      EXPECT_NE(message.find(place), std::string::npos) << message;
      EXPECT_NE(message.find(c.expected), std::string::npos) << message;
    }
  }
}

TEST(Descriptor, IsBounded) {
  const auto refused = [](const std::string& text, const char* expected) {
    try {
      parse_descriptor(text);
      ADD_FAILURE() << "accepted: " << expected;
    } catch (const rapt::Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  refused("q1k1d1:mask=" + std::string(17, '!') + "causal", "at most 16 masks inside each other");
  refused("q1k1d1:mask=" + std::string(2000, '('), "at most 16 masks inside each other");
  std::string many = "q1k1d1:mask=causal";
  for (int i = 0; i < 16; ++i) many += "&causal";
  refused(many, "at most 16 masks");
  std::string parts = "q1k1d1:mask=causal";
  for (int i = 0; i < 64; ++i) parts += "|causal";
  refused(parts, "at most 64 masks in all");
  refused("q1k1d1" + std::string(5000, ' '), "at most 4096 characters");
}

// A line with one changed character is read or rejected. If it is read, its text is canonical.
TEST(Descriptor, SurvivesAnyChange) {
  const std::string line =
      "[2,1]h4/2q10k12d6v3:bf16>f32:layout=padded,dense+broadcast(1),strided:mask=!(causal(2)|"
      "window(3,-1))&lengths:bias=[10,1],0.5:scale=0.5:weights([1,2],heads=[0]):map(2,3,max):"
      "top_k(3):entropy:seed=12";
  Random random(5);
  int read = 0;
  for (int n = 0; n < 20'000; ++n) {
    std::string changed = line;
    const auto at = static_cast<size_t>(random.between(0, static_cast<int64_t>(line.size()) - 1));
    if (random.chance(0.3))
      changed.erase(at, 1);
    else if (random.chance(0.5))
      changed[at] = static_cast<char>(random.between(0, 255));
    else
      changed.insert(
          at, 1,
          line[static_cast<size_t>(random.between(0, static_cast<int64_t>(line.size()) - 1))]);
    try {
      const Descriptor d = parse_descriptor(changed);
      EXPECT_EQ(parse_descriptor(to_string(d)), d) << changed;
      ++read;
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::argument) << changed;
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace check

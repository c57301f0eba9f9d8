// Combinations of masks from text and back to text, and the positions of errors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rapt/catalogue.h"
#include "rapt/mask/and.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"

namespace {

using rapt::ErrorCode;

// Returns the same tensor for every name, and records the names that were asked for.
struct Tensors {
  std::vector<std::string> asked;
  int64_t value = 0;
  rapt::TensorSource source() {
    return [this](std::string_view name) {
      asked.emplace_back(name);
      return rapt::TensorView(&value, {1});
    };
  }
};

std::string reprinted(std::string_view spec) {
  Tensors tensors;
  return to_string(*rapt::make_mask(spec, tensors.source()));
}

TEST(MaskSpec, PrecedenceIsNotAndOr) {
  EXPECT_EQ(reprinted("causal|prefix(3)&window(4,0)"), "causal|prefix(3)&window(4,0)");
  EXPECT_EQ(reprinted("causal | (prefix(3) & window(4,0))"), "causal|prefix(3)&window(4,0)");
  EXPECT_EQ(reprinted("(causal|prefix(3)) & window(4,0)"), "(causal|prefix(3))&window(4,0)");
  EXPECT_EQ(reprinted("!causal&prefix(3)"), "!causal&prefix(3)");
  EXPECT_EQ(reprinted("!(causal&prefix(3))"), "!(causal&prefix(3))");
  EXPECT_EQ(reprinted(" ! ! causal "), "!!causal");
}

TEST(MaskSpec, FunctionsMeanTheSameAsOperators) {
  EXPECT_EQ(reprinted("or(causal, prefix(3))"), "causal|prefix(3)");
  EXPECT_EQ(reprinted("and( causal , prefix(3) , window(1,1) )"), "causal&prefix(3)&window(1,1)");
  EXPECT_EQ(reprinted("not(causal)"), "!causal");
  EXPECT_EQ(reprinted("not(or(causal, and(prefix(1), window)))"), "!(causal|prefix(1)&window)");
  EXPECT_EQ(reprinted("and(causal)"), "and(causal)");
  EXPECT_EQ(reprinted("or(and(causal)) & !or(causal)"), "or(and(causal))&!or(causal)");
}

// A chain of one operator is one mask with many parts. Parentheses keep their own level.
TEST(MaskSpec, LevelsAreKept) {
  EXPECT_EQ(rapt::make_mask("causal&window&prefix(1)")->parts().size(), 3u);
  EXPECT_EQ(rapt::make_mask("(causal&window)&prefix(1)")->parts().size(), 2u);
  EXPECT_EQ(reprinted("(causal&window)&prefix(1)"), "(causal&window)&prefix(1)");
  EXPECT_EQ(reprinted("causal|(window|prefix(1))"), "causal|(window|prefix(1))");
  EXPECT_EQ(reprinted("((((causal))))"), "causal");
  const auto mask = rapt::make_mask("causal | !window(4,0)");
  ASSERT_NE(dynamic_cast<const rapt::Or*>(mask.get()), nullptr);
  ASSERT_EQ(mask->parts().size(), 2u);
  EXPECT_NE(dynamic_cast<const rapt::Causal*>(mask->parts()[0]), nullptr);
  const auto* inner = dynamic_cast<const rapt::Not*>(mask->parts()[1]);
  ASSERT_NE(inner, nullptr);
  const auto* window = dynamic_cast<const rapt::Window*>(inner->parts()[0]);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->left, 4);
  EXPECT_EQ(window->right, 0);
}

TEST(MaskSpec, ParametersAtTheirDefaultsAreLeftOut) {
  EXPECT_EQ(reprinted("causal(anchor=top-left, offset=0)"), "causal");
  EXPECT_EQ(reprinted("causal(5)"), "causal(5)");
  EXPECT_EQ(reprinted("causal(5, bottom-right)"), "causal(bottom-right,5)");
  EXPECT_EQ(reprinted("window(256,0)"), "window(256,0)");
  EXPECT_EQ(reprinted("window(right=2)"), "window(right=2)");
  EXPECT_EQ(reprinted("window(anchor=bottom-right)"), "window(bottom-right)");
  EXPECT_EQ(reprinted("prefix"), "prefix");
  EXPECT_EQ(reprinted("prefix:7"), "prefix(7)");
  EXPECT_EQ(reprinted("prefix(p.npy)"), "prefix(<tensor>)");
  EXPECT_EQ(reprinted("documents(q.npy) & lengths(l.npy)"),
            "documents(<tensor>)&lengths(<tensor>)");
  EXPECT_EQ(reprinted("documents_by_starts(query_starts=a, key_starts=b)"),
            "documents_by_starts(<tensor>,<tensor>)");
}

// The printed text is read as the same mask.
TEST(MaskSpec, RoundTrip) {
  for (const char* spec :
       {"causal", "causal(-3)", "window(3,4,bottom-right)&!causal|prefix(9)",
        "!(!window(right=0)|and(prefix(2)))", "causal&(window|prefix(1)&causal(2))",
        "(causal|window(1,1))&(prefix(1)|window(2,2))&!(causal&causal(1))"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(reprinted(spec), spec);
  }
}

TEST(MaskSpec, TensorsKeepTheirNames) {
  Tensors tensors;
  rapt::make_mask("lengths(a(1).npy) & !documents(key_ids=/data/run=3/k.npy, q&|!.npy)|prefix(p:2)",
                  tensors.source());
  EXPECT_EQ(tensors.asked,
            (std::vector<std::string>{"a(1).npy", "/data/run=3/k.npy", "q&|!.npy", "p:2"}));
  tensors.asked.clear();
  rapt::make_mask("lengths:a(1.npy",
                  tensors.source());  // a single mask needs no matching parentheses
  EXPECT_EQ(tensors.asked, std::vector<std::string>{"a(1.npy"});
}

void expect_fault(const std::string& spec, ErrorCode code, std::string_view fragment) {
  SCOPED_TRACE(spec.substr(0, 100));
  Tensors tensors;
  try {
    rapt::make_mask(spec, tensors.source());
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
        << "\"" << fragment << "\" is missing in: " << error.what();
    EXPECT_LT(std::string(error.what()).size(), 400u) << "too long to read";
  }
}

TEST(MaskSpec, FaultsAreShownWhereTheyAre) {
  const auto argument = ErrorCode::argument;
  expect_fault("causal & windw(4,0)", ErrorCode::unknown_name, "did you mean window?");
  expect_fault("causal & windw(4,0)", ErrorCode::unknown_name, "column 10: \"windw(4,0)\"");
  expect_fault("causal & window(4,middle) | prefix(1)", argument, "column 19: \"middle) | prefix");
  expect_fault("causal & window(-2,0)", argument, "column 10: \"window(-2,0)\"");
  expect_fault("causal &", ErrorCode::unknown_name, "column 9 (the end of \"causal &\")");
  expect_fault("causal & & window", ErrorCode::unknown_name, "column 10: \"& window\"");
  expect_fault("causal && window", argument, "one & is enough; column 9: \"& window\"");
  expect_fault("causal window", argument, "expected &, | or the end of the masks; column 8");
  expect_fault("(causal", argument, "parenthesis is missing for the one; column 1");
  expect_fault("causal & (window | prefix(1)", argument, "column 10: \"(window");
  expect_fault("causal)", argument, "column 7: \")\"");
  expect_fault("or(causal, window(4,0)", argument, "missing for the one; column 3: \"(causal");
  expect_fault("or(causal; window)", ErrorCode::unknown_name, "did you mean causal?");
  expect_fault("()", ErrorCode::unknown_name, "a mask's name is missing");
  expect_fault("!", ErrorCode::unknown_name, "a mask's name is missing");
  expect_fault("or(causal,)", ErrorCode::unknown_name, "column 11: \")\"");
  expect_fault("lengths(lenghts=f.npy)", argument, "no use for \"lenghts=f.npy\"");
}

TEST(MaskSpec, PartsAreMasksAndCounted) {
  const auto argument = ErrorCode::argument;
  expect_fault("and", argument, "and(mask, mask)");
  expect_fault("or()", argument, "or(mask, mask)");
  expect_fault("not", argument, "not(mask)");
  expect_fault("not(causal,window)", argument, "more than 1 part");
  expect_fault("or:causal", argument, "or(mask, mask)");
  std::string many = "causal";
  for (int i = 1; i < 16; ++i) many += "|causal";
  EXPECT_EQ(reprinted(many), many);
  expect_fault(many + "|causal", argument, "more than 16 parts");
  EXPECT_EQ(reprinted("(" + many + ")|causal"), "(" + many + ")|causal");
}

TEST(MaskSpec, TheColonFormStandsAlone) {
  EXPECT_EQ(reprinted("window:4,0:bottom-right"), "window(4,0,bottom-right)");
  expect_fault("window:4,0 & causal", ErrorCode::argument, "in a combination write window(...)");
  expect_fault("causal & window:4,0", ErrorCode::argument, "in a combination write window(...)");
  expect_fault("lengths:f.npy&causal", ErrorCode::argument, "in a combination write lengths(...)");
  expect_fault("!prefix:4", ErrorCode::argument, "in a combination write prefix(...)");
}

// Untrusted text can exhaust neither the stack nor the time.
TEST(MaskSpec, DepthAndLengthAreBounded) {
  const auto argument = ErrorCode::argument;
  for (const size_t n : {size_t{40}, size_t{60000}, size_t{2000000}})
    for (const char* open : {"(", "!", "not(", "or(causal,"}) {
      std::string spec;
      while (spec.size() < n * std::string(open).size()) spec += open;
      expect_fault(spec + "causal", argument, spec.size() < 60000 ? "nested deeper" : "");
    }
  EXPECT_EQ(reprinted(std::string(10, '(') + "causal" + std::string(10, ')')), "causal");
  const std::string fifteen(15, '!');
  EXPECT_EQ(reprinted(fifteen + "causal"), fifteen + "causal");
  expect_fault(fifteen + "!causal", argument, "nested deeper than 16 levels");
  // 16 * 16 * 16 masks exceed the limit of 1024.
  std::string spec = "causal";
  for (const char* op : {"|", "&", "|"}) {
    std::string longer = "(" + spec + ")";
    for (int i = 1; i < 16; ++i) longer += op + ("(" + spec + ")");
    spec = longer;
  }
  expect_fault(spec, argument, "more than 1024 masks");
}

// A few masks that share parts can form a tree too large for any memory. Such trees are rejected
// without a full walk.
TEST(MaskSpec, TreesThatMeetAreRefused) {
  const rapt::Causal causal;
  std::vector<std::unique_ptr<rapt::And>> levels;
  const rapt::Mask* below = &causal;
  for (int level = 0; level < 15; ++level) {
    const std::vector<const rapt::Mask*> parts(16, below);
    levels.push_back(std::make_unique<rapt::And>(parts));
    below = levels.back().get();
  }
  EXPECT_GT(below->bound_slots(), 0);
  EXPECT_THROW(below->check({}, 4, 4), rapt::Error);
  EXPECT_THROW(to_string(*below), rapt::Error);
  EXPECT_NO_THROW(levels[0]->check({}, 4, 4));
}

TEST(MaskSpec, PartsThatCannotBe) {
  const rapt::Causal causal;
  EXPECT_THROW(rapt::And().check({}, 4, 4), rapt::Error);
  EXPECT_THROW(rapt::Or().check({}, 4, 4), rapt::Error);
  EXPECT_THROW(rapt::Not().check({}, 4, 4), rapt::Error);
  EXPECT_THROW(rapt::Not(nullptr).check({}, 4, 4), rapt::Error);
  EXPECT_THROW((rapt::And{&causal, nullptr}.check({}, 4, 4)), rapt::Error);
  const rapt::Or inner{&causal, nullptr};
  EXPECT_THROW((rapt::And{&causal, &inner}.check({}, 4, 4)), rapt::Error);
  EXPECT_THROW(rapt::And(std::vector<const rapt::Mask*>(17, &causal)), rapt::Error);
  // The error of an inner part is reported.
  const rapt::Window window(-5, 0);
  const rapt::Not outside(&window);
  EXPECT_THROW((rapt::Or{&causal, &outside}.check({}, 4, 4)), rapt::Error);
}

}  // namespace

// Masks from text: every valid form is read, and every invalid one gives a helpful error.
#include "rapt/catalogue.h"

#include <gtest/gtest.h>

#include <string>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"

namespace {

using rapt::Anchor;
using rapt::ErrorCode;

template <class M>
M made(std::string_view spec) {
  const std::unique_ptr<rapt::Mask> mask = rapt::make_mask(spec);
  const M* typed = dynamic_cast<const M*>(mask.get());
  if (!typed) throw std::logic_error("another mask than asked for");
  return *typed;
}

TEST(MakeMask, Causal) {
  for (const char* spec : {"causal", " causal ", "causal()", "causal:top-left", "causal(top-left)",
                           "causal(anchor=top-left)", "causal(0)"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(made<rapt::Causal>(spec).anchor, Anchor::top_left);
    EXPECT_EQ(made<rapt::Causal>(spec).offset, 0);
  }
  EXPECT_EQ(made<rapt::Causal>("causal:bottom-right").anchor, Anchor::bottom_right);
  EXPECT_EQ(made<rapt::Causal>("causal(bottom-right)").anchor, Anchor::bottom_right);
  EXPECT_EQ(made<rapt::Causal>("causal(5)").offset, 5);
  EXPECT_EQ(made<rapt::Causal>("causal(-5)").offset, -5);
  EXPECT_EQ(made<rapt::Causal>("causal:+5").offset, 5);
  for (const char* spec : {"causal(bottom-right, 3)", "causal(3, bottom-right)",
                           "causal(offset=3, anchor=bottom-right)", "causal:3:bottom-right"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(made<rapt::Causal>(spec).offset, 3);
    EXPECT_EQ(made<rapt::Causal>(spec).anchor, Anchor::bottom_right);
  }
}

TEST(MakeMask, Window) {
  for (const char* spec :
       {"window:4,0:bottom-right", "window(4, 0, bottom-right)",
        "window(left=4,right=0,anchor=bottom-right)",
        "window(anchor=bottom-right, right=0, left=4)", "window(bottom-right,4,0)"}) {
    SCOPED_TRACE(spec);
    const auto window = made<rapt::Window>(spec);
    EXPECT_EQ(window.left, 4);
    EXPECT_EQ(window.right, 0);
    EXPECT_EQ(window.anchor, Anchor::bottom_right);
  }
  EXPECT_EQ(made<rapt::Window>("window(left=4,right=0)").anchor, Anchor::top_left);
  EXPECT_EQ(made<rapt::Window>("window(right=2)").left, -1);
  EXPECT_EQ(made<rapt::Window>("window").right, -1);
}

TEST(MakeMask, Tensors) {
  const bool allowed[2] = {true, false};
  const int64_t lengths[2] = {1, 2};
  std::string asked;
  const rapt::TensorSource source = [&](std::string_view name) {
    asked = name;
    return name == "len.npy" ? rapt::TensorView(lengths, {2}) : rapt::TensorView(allowed, {1, 2});
  };
  const auto mask = rapt::make_mask("boolean(m.npy)", source);
  EXPECT_EQ(asked, "m.npy");
  EXPECT_EQ(dynamic_cast<const rapt::Boolean&>(*mask).allowed.data, allowed);
  const auto padding = rapt::make_mask("lengths:len.npy", source);
  EXPECT_EQ(dynamic_cast<const rapt::Lengths&>(*padding).lengths.data, lengths);
}

void expect_refused(std::string_view spec, ErrorCode code, std::string_view fragment) {
  SCOPED_TRACE(spec);
  try {
    rapt::make_mask(spec);
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
        << "\"" << fragment << "\" is missing in: " << error.what();
  }
}

TEST(MakeMask, UnknownNamesGetASuggestion) {
  expect_refused("casual", ErrorCode::unknown_name, "did you mean causal?");
  expect_refused("windw:4,0", ErrorCode::unknown_name, "did you mean window?");
  expect_refused("lenghts", ErrorCode::unknown_name, "did you mean lengths?");
  expect_refused("Causal", ErrorCode::unknown_name, "causal");
  for (const rapt::Declaration* known : rapt::mask_declarations())
    expect_refused("xyzzyplugh", ErrorCode::unknown_name, known->name);
  expect_refused("", ErrorCode::unknown_name, "causal");
}

TEST(MakeMask, RefusesValuesThatDoNotFit) {
  const auto argument = ErrorCode::argument;
  expect_refused("causal(5", argument, "parenthesis");
  expect_refused("causal(5)x", argument, "column 10: \"x\"");
  expect_refused("causal(5,6)", argument, "6");
  expect_refused("causal(middle)", argument, "middle");
  expect_refused("causal(1.5)", argument, "1.5");
  expect_refused("causal(offset=)", argument, "offset");
  expect_refused("causal(speed=3)", argument, "speed");
  expect_refused("causal(offset=1,offset=2)", argument, "offset=2");
  expect_refused("causal:", argument, "causal");
  expect_refused("causal(99999999999999999999)", argument, "99999999999999999999");
  expect_refused("causal(9007199254740994)", argument, "9007199254740994");
  expect_refused("window(-2,0)", argument, "-2");
  expect_refused("window(left=-7)", argument, "-7");
  expect_refused("window(1,2,3)", argument, "3");
  expect_refused("boolean", argument, "allowed");
  expect_refused("lengths", argument, "lengths");
}

TEST(Catalogue, EveryVariantDeclaresItself) {
  ASSERT_GE(rapt::mask_declarations().size(), 10u);
  ASSERT_GE(rapt::normalizer_declarations().size(), 9u);
  EXPECT_STREQ(rapt::normalizer_declarations()[0]->name, "softmax");
  for (const rapt::Declaration* declaration : rapt::mask_declarations()) {
    EXPECT_GT(std::string(declaration->doc).size(), 10u) << declaration->name;
    EXPECT_GT(std::string(declaration->source).size(), 3u) << declaration->name;
    for (const rapt::Parameter& parameter : declaration->parameters) {
      EXPECT_GT(std::string(parameter.doc).size(), 3u) << parameter.name;
      EXPECT_EQ(parameter.type == rapt::ParameterType::choice, !parameter.choices.empty());
    }
  }
}

// Every parameter reads back the value that was set.
TEST(Catalogue, ParametersRoundTrip) {
  rapt::Window window(3, 4, Anchor::bottom_right);
  for (const rapt::Parameter& parameter : rapt::Window::kDeclaration.parameters) {
    rapt::Argument value = parameter.get(&window);
    value.integer = value.type == rapt::ParameterType::choice ? 0 : value.integer + 10;
    parameter.set(&window, value);
  }
  EXPECT_EQ(window.left, 13);
  EXPECT_EQ(window.right, 14);
  EXPECT_EQ(window.anchor, Anchor::top_left);
}

TEST(MakeScore, Softcap) {
  for (const char* spec : {"softcap(30)", " softcap( cap=30 ) ", "softcap:30"}) {
    SCOPED_TRACE(spec);
    const rapt::MadeScore made = rapt::make_score(spec);
    EXPECT_STREQ(made.ref.declaration->name, "softcap");
    EXPECT_EQ(static_cast<const rapt::Softcap*>(made.ref.object)->cap, 30);
  }
}

TEST(MakeScore, Refusals) {
  const auto refused = [](const char* spec, ErrorCode code, const char* fragment) {
    SCOPED_TRACE(spec);
    try {
      rapt::make_score(spec);
      ADD_FAILURE() << "accepted";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    }
  };
  refused("softcup(3)", ErrorCode::unknown_name, "softcap");
  refused("", ErrorCode::unknown_name, "Known");
  refused("softcap", ErrorCode::argument, "cap");
  refused("softcap(0)", ErrorCode::argument, "cap");
  refused("softcap(-3)", ErrorCode::argument, "cap");
  refused("softcap(nan)", ErrorCode::argument, "cap");
  refused("softcap(3, 4)", ErrorCode::argument, "4");
  refused("softcap(3", ErrorCode::argument, "parenthesis");
  refused("softcap(3)x", ErrorCode::argument, "parenthesis");
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
  const std::string_view known[] = {"causal", "window"};
  EXPECT_EQ(rapt::nearest("causl", known), "causal");
  EXPECT_EQ(rapt::nearest("window", known), "window");
  EXPECT_EQ(rapt::nearest("transformer", known), "");
  EXPECT_EQ(rapt::nearest("x", {}), "");
  const std::string_view shorter[] = {"or", "and", "not"};
  EXPECT_EQ(rapt::nearest("foo", shorter), "") << "too little of it stays";
  EXPECT_EQ(rapt::nearest("", shorter), "");
  const std::string_view types[] = {"f16", "f32", "bf16"};
  EXPECT_EQ(rapt::nearest("f23", types), "f32") << "neighbours swapped";
}

}  // namespace

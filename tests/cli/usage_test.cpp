// --json-usage, help, manual pages and completions all name the same options.
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/support/run_rapt.h"
#include "cli/support/run_shell.h"
#include "rapt/version.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

class UsageTest : public RaptTest {
 protected:
  Json usage(std::vector<std::string> command = {}) const {
    command.push_back("--json-usage");
    const Ran ran = rapt(command);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return Json::parse(ran.out);
  }

  // The commands: "attend", "bench", ...
  std::vector<std::string> commands() const {
    std::vector<std::string> words;
    const Json document = usage();
    for (const Json& command : document.at("commands"))
      words.push_back(command.at("name").get<std::string>().substr(5));
    EXPECT_GE(words.size(), 9u);
    return words;
  }

  static Names names_of(const Json& command) {
    Names names;
    for (const Json& option : command.at("options"))
      for (const std::string name : option.at("names")) names.insert(name);
    return names;
  }

  // The options of a help text: the first words of lines that begin with a dash.
  static Names names_in_help(const std::string& help) {
    Names names;
    static const std::regex line("\n  (-[^ ]+)");
    for (std::sregex_iterator at(help.begin(), help.end(), line), end; at != end; ++at) {
      const std::string found = (*at)[1];
      for (size_t begin = 0; begin < found.size();) {
        const size_t comma = std::min(found.find(',', begin), found.size());
        names.insert(found.substr(begin, comma - begin));
        begin = comma + 1;
      }
    }
    return names;
  }

  std::string out(const std::vector<std::string>& arguments) const {
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return ran.out;
  }
};

TEST_F(UsageTest, IsOneDocumentWithASchema) {
  Json document = usage({"completions"});
  EXPECT_EQ(document.at("build"), build_info());
  EXPECT_EQ(document.at("exit_codes").size(), 7u);
  document.erase("build");
  document.erase("exit_codes");
  document.erase("notes");
  EXPECT_EQ(document, Json::parse(R"json({
    "schema": "rapt.usage/1",
    "name": "rapt completions",
    "help": "completions for a shell",
    "arguments": [{"names": ["SHELL"], "value": "SHELL", "help": "bash, zsh or fish",
                   "default": null, "choices": ["bash", "zsh", "fish"], "file": false,
                   "repeatable": false, "group": "Options"}],
    "options": [{"names": ["--help", "-h"], "value": null,
                 "help": "Print this help message and exit", "default": null, "choices": [],
                 "file": false, "repeatable": false, "group": "Options"},
                {"names": ["--json-usage"], "value": null,
                 "help": "what this command and its options are, for programs (docs/json.md)",
                 "default": null, "choices": [], "file": false, "repeatable": false,
                 "group": "Options"}],
    "commands": []
  })json"));
}

TEST_F(UsageTest, HelpNamesTheSameOptionsForEveryCommand) {
  EXPECT_EQ(names_of(usage()), names_in_help(out({"--help"})));
  for (const std::string& command : commands()) {
    const Names names = names_of(usage({command}));
    EXPECT_EQ(names, names_in_help(out({command, "--help"}))) << command;
    EXPECT_TRUE(names.contains("--help") && names.contains("--json-usage")) << command;
  }
}

TEST_F(UsageTest, TheWholeHoldsWhatEachCommandSays) {
  const Json whole = usage();
  for (const Json& inner : whole.at("commands")) {
    Json alone = usage({inner.at("name").get<std::string>().substr(5)});
    for (const char* key : {"schema", "build", "exit_codes"}) alone.erase(key);
    EXPECT_EQ(inner, alone);
  }
}

TEST_F(UsageTest, ManualPagesNameEveryOption) {
  const auto expect_all = [&](const std::string& page, const Json& command) {
    for (std::string name : names_of(command)) {
      // roff writes a minus sign as \-; a plain - is a hyphen.
      const std::string bold = "\\fB" + std::regex_replace(name, std::regex("-"), "\\-") + "\\fR";
      EXPECT_TRUE(contains(page, bold)) << command.at("name") << " " << name;
    }
    EXPECT_TRUE(contains(page, ".SH EXIT STATUS"));
  };
  expect_all(out({"man"}), usage());
  for (const std::string& command : commands()) expect_all(out({"man", command}), usage({command}));
}

TEST_F(UsageTest, ManualPagesAreCleanRoff) {
  std::vector<std::string> linters;
  if (is_installed("mandoc")) linters.push_back("mandoc -T lint -W warning");
  if (is_installed("groff")) linters.push_back("groff -man -K utf8 -T utf8 -ww -z");
  if (linters.empty()) GTEST_SKIP() << "neither mandoc nor groff is installed";
  std::vector<std::string> pages = commands();
  pages.push_back("rapt");
  for (const std::string& page : pages) {
    write("page.1", out({"man", page}));
    for (const std::string& linter : linters) {
      // Pages have no date, so that one source always gives the same page.
      const ShellRan ran =
          run_shell(folder().string(), linter + " page.1 2>&1 | grep -v 'missing date'");
      EXPECT_EQ(ran.out, "") << linter << " " << page;
    }
  }
}

TEST_F(UsageTest, ManualPagesShowTextAsItIs) {
  if (!is_installed("groff")) GTEST_SKIP() << "groff is not installed";
  write("page.1", out({"man", "bench"}));
  // The options keep grotty from overstriking bold letters and from underlining others.
  const std::string text =
      run_shell(folder().string(), "groff -man -K utf8 -T ascii -P -cbu page.1").out;
  EXPECT_TRUE(contains(text, "rapt bench 'h8/2q1k4096d128:bf16' --threads 1,2")) << text;
  EXPECT_TRUE(contains(text, "--repetitions, -r N")) << text;
}

TEST_F(UsageTest, RefusesAPageOfNoCommand) {
  const Ran ran = rapt({"man", "atend"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean 'attend'?")) << ran.err;
}

TEST_F(UsageTest, OfferedWordsMeanNothingElseToAShell) {
  const std::regex harmless("[A-Za-z0-9_.:-]+");
  const Json document = usage();
  for (const Json& command : document.at("commands")) {
    for (const char* kind : {"arguments", "options"})
      for (const Json& option : command.at(kind))
        for (const std::string word : option.at("choices"))
          EXPECT_TRUE(std::regex_match(word, harmless)) << word;
  }
}

// attend must accept every choice that it offers. Words that need parameters are skipped.
TEST_F(UsageTest, EveryWordThatIsOfferedIsAccepted) {
  size_t tried = 0;
  const Json document = usage({"attend"});
  for (const Json& option : document.at("options")) {
    for (const std::string word : option.at("choices")) {
      if (word.ends_with(':')) continue;
      if (option.at("names").at(0) == "--bias-order") continue;  // needs a bias and a score
      ++tried;
      const std::string name = option.at("names").at(0);
      std::vector<std::string> arguments = {"attend", "--text", "a b c", name, word};
      if (name == "--output-dtype") {
        if (word != "f32") continue;  // other dtypes must equal that of the inputs
        arguments.insert(arguments.end(), {"--dtype", "bf16"});
      }
      const Ran ran = rapt(arguments);
      EXPECT_EQ(ran.exit, 0) << name << " " << word << ": " << ran.err;
    }
  }
  EXPECT_GT(tried, 15u);
}

TEST_F(UsageTest, TellsDefaultsAsHelpWordsThem) {
  std::map<std::string, Json> defaults;
  const Json document = usage({"attend"});
  for (const Json& option : document.at("options"))
    defaults[option.at("names").at(0)] = option.at("default");
  EXPECT_EQ(defaults.at("--colormap"), "blues");
  EXPECT_EQ(defaults.at("--precision"), "auto");
  EXPECT_EQ(defaults.at("--dtype"), "the query's");
  EXPECT_EQ(defaults.at("--scale"), "1/sqrt(d); 5 times the heads for --text");
  EXPECT_EQ(defaults.at("--top-k"), "16");
  EXPECT_EQ(defaults.at("--query"), nullptr);
}

}  // namespace
}  // namespace rapt::cli_test

// Completions, tested in the shells that read them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/support/run_rapt.h"
#include "cli/support/run_shell.h"
#include "rapt/catalogue.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class CompletionsTest : public RaptTest {
 protected:
  // Writes the completion script for a shell and returns its file name.
  std::string script(const std::string& shell) const {
    const Ran ran = rapt({"completions", shell});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    write("rapt." + shell, ran.out);
    return "rapt." + shell;
  }

  // What bash offers for the last word, sorted. As in bash, words are split at = and :, for example
  // {"--dtype", "=", "b"}.
  Words bash(const Words& words) const {
    std::string line = "bash --norc --noprofile -c 'source " + script("bash") + "; COMP_WORDS=(";
    for (const std::string& word : words) line += "\"" + word + "\" ";
    line += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
            "; _rapt; for reply in \"${COMPREPLY[@]}\"; do echo \"$reply\"; done'";
    const ShellRan ran = run_shell(folder().string(), line);
    EXPECT_EQ(ran.exit, 0) << ran.out;
    Words replies;
    std::istringstream lines(ran.out);
    for (std::string reply; std::getline(lines, reply);) replies.push_back(reply);
    std::sort(replies.begin(), replies.end());
    return replies;
  }

  Json usage() const { return Json::parse(rapt({"--json-usage"}).out); }
};

TEST_F(CompletionsTest, BashCompletesCommands) {
  Words commands;
  const Json document = usage();
  for (const Json& command : document.at("commands"))
    commands.push_back(command.at("name").get<std::string>().substr(5));
  std::sort(commands.begin(), commands.end());
  EXPECT_EQ(bash({"rapt", ""}), commands);
  EXPECT_EQ(bash({"rapt", "att"}), Words{"attend"});
  EXPECT_EQ(bash({"rapt", "--ver"}), Words{"--version"});
}

TEST_F(CompletionsTest, BashCompletesEveryOptionOfEveryCommand) {
  const Json document = usage();
  for (const Json& command : document.at("commands")) {
    Words names;
    for (const Json& option : command.at("options"))
      for (const std::string name : option.at("names")) names.push_back(name);
    std::sort(names.begin(), names.end());
    const std::string word = command.at("name").get<std::string>().substr(5);
    EXPECT_EQ(bash({"rapt", word, "-"}), names);
  }
}

// Expects every name, with or without the colon that precedes parameters.
void expect_all(const Words& offered, std::span<const Declaration* const> declarations) {
  for (const Declaration* d : declarations)
    EXPECT_TRUE(std::ranges::any_of(offered, [&](const std::string& word) {
      return word == d->name || word == std::string(d->name) + ":";
    })) << d->name;
}

TEST_F(CompletionsTest, BashCompletesValues) {
  EXPECT_EQ(bash({"rapt", "attend", "--dtype", "f"}), (Words{"f16", "f32", "f64"}));
  EXPECT_EQ(bash({"rapt", "attend", "--dtype", "=", "b"}), Words{"bf16"});
  EXPECT_EQ(bash({"rapt", "attend", "--dtype", "="}).size(), 4u);
  EXPECT_EQ(bash({"rapt", "explain", "--dtype", "f"}), (Words{"f32", "f64"}));
  EXPECT_EQ(bash({"rapt", "attend", "--force", "--color", "a"}), (Words{"always", "auto"}));
  expect_all(bash({"rapt", "attend", "--score", ""}), score_declarations());
  expect_all(bash({"rapt", "attend", "--normalizer", ""}), normalizer_declarations());
  expect_all(bash({"rapt", "attend", "--method", ""}), method_declarations());
  EXPECT_EQ(bash({"rapt", "completions", ""}), (Words{"bash", "fish", "zsh"}));
  EXPECT_EQ(bash({"rapt", "man", "ex"}), Words{"explain"});
  EXPECT_EQ(bash({"rapt", "attend", "--scale", ""}), Words{});
  EXPECT_EQ(bash({"rapt", "attend", "--stats", "--ou"}), (Words{"--output", "--output-dtype"}))
      << "its value may be left out";
}

TEST_F(CompletionsTest, BashCompletesMasksAndWhatStandsBehindTheirColon) {
  write("lengths of two.npy", "");
  EXPECT_EQ(bash({"rapt", "mask", "caus"}),
            (Words{"causal", "causal:", "causal:bottom-right", "causal:top-left"}));
  // bash keeps the part up to the colon, so completions do not repeat it.
  EXPECT_EQ(bash({"rapt", "attend", "--mask", "causal", ":", "bot"}), Words{"bottom-right"});
  EXPECT_EQ(bash({"rapt", "attend", "--mask", "lengths", ":", "len"}), Words{"lengths of two.npy"});
  EXPECT_EQ(bash({"rapt", "attend", "--mask", "=", "lengths", ":", "len"}),
            Words{"lengths of two.npy"});
}

TEST_F(CompletionsTest, BashCompletesFiles) {
  write("query.npy", "");
  write("key.npy", "");
  EXPECT_EQ(bash({"rapt", "attend", "--query", "q"}), Words{"query.npy"});
  EXPECT_EQ(bash({"rapt", "attend", "--key", "=", "k"}), Words{"key.npy"});
  EXPECT_EQ(bash({"rapt", "qu"}), Words{"query.npy"}) << "rapt FILE";
}

TEST_F(CompletionsTest, ShellsCanReadTheirScripts) {
  for (const auto& [shell, check] : {std::pair<std::string, std::string>{"bash", "bash -n "},
                                     {"zsh", "zsh -f -n "},
                                     {"fish", "fish --no-config --no-execute "}}) {
    const std::string file = script(shell);
    if (!is_installed(shell)) continue;
    const ShellRan ran = run_shell(folder().string(), check + file);
    EXPECT_EQ(ran.exit, 0) << shell;
    EXPECT_EQ(ran.out, "") << shell;
  }
}

TEST_F(CompletionsTest, ZshAndFishNameEveryOption) {
  script("zsh");
  script("fish");
  const std::string zsh = read("rapt.zsh"), fish = read("rapt.fish");
  const Json document = usage();
  for (const Json& command : document.at("commands")) {
    const std::string word = command.at("name").get<std::string>().substr(5);
    const size_t begin = zsh.find("\n        " + word + ")\n");
    ASSERT_NE(begin, std::string::npos) << word;
    const std::string part = zsh.substr(begin, zsh.find(";;", begin) - begin);
    const std::string seen = "-n '__fish_seen_subcommand_from " + word + "'";
    for (const Json& option : command.at("options")) {
      for (const std::string name : option.at("names")) {
        EXPECT_TRUE(contains(part, name + "[") || contains(part, name + "=[")) << name;
        const bool is_long = name.starts_with("--");
        const std::string flag = is_long ? " -l " + name.substr(2) : " -s " + name.substr(1);
        bool found = false;
        std::istringstream lines(fish);
        for (std::string line; std::getline(lines, line);)
          found |= contains(line, seen) && contains(line + " ", flag + " ");
        EXPECT_TRUE(found) << word << flag;
      }
    }
  }
}

TEST_F(CompletionsTest, FishCompletesOptionsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  const auto fish = [&](const std::string& line) {
    return run_shell(folder().string(), "HOME=. fish --no-config -c 'source " + script("fish") +
                                            "; complete -C \"" + line + "\"'")
        .out;
  };
  EXPECT_TRUE(fish("rapt at").starts_with("attend\t")) << fish("rapt at");
  EXPECT_TRUE(contains(fish("rapt attend --dtype bf"), "bf16")) << fish("rapt attend --dtype bf");
  EXPECT_TRUE(contains(fish("rapt attend --weights-p"), "--weights-pool"));
  EXPECT_TRUE(contains(fish("rapt completions z"), "zsh"));
}

// Zsh completes only at a terminal. The test types a line with a tab at its end into one, and the
// shell prints the command that it would run.
TEST_F(CompletionsTest, ZshCompletesOptionsAndValues) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  std::filesystem::rename(folder() / script("zsh"), folder() / "_rapt");
  write("query.npy", "");
  write("type.zsh", R"zsh(
zmodload zsh/zpty || exit 77
zpty -b shell zsh -f -i
zpty -w shell "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; rapt() { print -r \"<<\$*>>\" }; print REA''DY"
zpty -r -m shell said '*READY*'
for line; do
  zpty -w -n shell $line$'\t\n'
  zpty -r -m shell said '*<<*>>*'
  print -r -- ${${said##*<<}%%>>*}
done
zpty -d shell
)zsh");
  const ShellRan ran = run_shell(folder().string(),
                                 "timeout 60 zsh -f type.zsh 'rapt att' 'rapt attend --dtype bf' "
                                 "'rapt attend --weights-p' 'rapt attend --query qu' "
                                 "'rapt attend --stats qu' 'rapt completions z'");
  if (ran.exit == 77) GTEST_SKIP() << "zsh has no terminal to type into";
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "attend\nattend --dtype bf16\nattend --weights-pool\nattend --query query.npy\n"
            "attend --stats query.npy\ncompletions zsh\n");
}

TEST_F(CompletionsTest, RefusesAnUnknownShell) {
  const Ran ran = rapt({"completions", "bsh"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean 'bash'?")) << ran.err;
  EXPECT_EQ(rapt({"completions"}).exit, 2);
}

}  // namespace
}  // namespace rapt::cli_test

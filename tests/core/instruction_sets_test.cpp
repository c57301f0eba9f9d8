// RAPT_ISA names the highest set that may be used. Anything else is an error; there is no fallback.
#include "rapt/instruction_sets.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "rapt/attention.h"

namespace {

using rapt::ErrorCode;

// Runs `body` in a new process with RAPT_ISA = value, because a process chooses its set only once.
int in_child(const char* value, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (value)
      setenv("RAPT_ISA", value, 1);
    else
      unsetenv("RAPT_ISA");
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Sanitizer builds leave out sets that the machine lacks.
bool is_built(const std::string& name) {
  return in_child(nullptr, [&] {
    for (const auto& set : rapt::instruction_sets())
      if (set.name == name) return 1;
    return 0;
  });
}

int chosen_index() {
  int chosen = -1;
  const auto sets = rapt::instruction_sets();
  for (size_t i = 0; i < sets.size(); ++i)
    if (sets[i].chosen) chosen = static_cast<int>(i);
  return chosen;
}

TEST(InstructionSets, OneIsChosenAndIsTheBestAvailable) {
  EXPECT_EQ(in_child(nullptr,
                     [] {
                       const auto sets = rapt::instruction_sets();
                       int chosen = 0, best = -1;
                       for (size_t i = 0; i < sets.size(); ++i) {
                         chosen += sets[i].chosen;
                         if (sets[i].available) best = static_cast<int>(i);
                       }
                       return chosen == 1 && best == chosen_index() ? 0 : 1;
                     }),
            0);
}

TEST(InstructionSets, ScalarIsAlwaysThere) {
  EXPECT_EQ(in_child("scalar",
                     [] {
                       bool fits = false;
                       for (const auto& set : rapt::instruction_sets())
                         fits |= std::string(set.name) == "scalar" && set.available && set.chosen;
                       const rapt::Tensor t(rapt::DType::f32, {2, 4});
                       return fits && std::string(rapt::plan(t, t, t).isa) == "scalar" ? 0 : 1;
                     }),
            0);
}

// Tile registers in plain C++ stand before all sets that every machine has.
TEST(InstructionSets, EmulatedTileRegistersAreChosenOnlyByName) {
  EXPECT_EQ(in_child(nullptr,
                     [] {
                       for (const auto& set : rapt::instruction_sets())
                         if (std::string(set.name) == "amx_emulated" && set.chosen) return 1;
                       return 0;
                     }),
            0);
  if (!is_built("amx_emulated") || !rapt::cpu_has("amx_emulated")) return;
  EXPECT_EQ(in_child("amx_emulated",
                     [] {
                       const rapt::Tensor t(rapt::DType::f32, {2, 4});
                       return std::string(rapt::plan(t, t, t).isa) == "amx_emulated" ? 0 : 1;
                     }),
            0);
}

// The public functions reject the name just like the list does.
TEST(InstructionSets, UnknownNamesAreRefused) {
  for (const char* name : {"avx1024", "AVX2", "avx", "scalar "})
    EXPECT_EQ(in_child(name,
                       [name] {
                         int refused = 0;
                         const rapt::Tensor t(rapt::DType::f32, {2, 4});
                         try {
                           rapt::instruction_sets();
                         } catch (const rapt::Error& error) {
                           refused += error.code() == ErrorCode::unknown_name &&
                                      std::string(error.what()).find(name) != std::string::npos;
                         }
                         try {
                           rapt::scaled_dot_product_attention(t, t, t);
                         } catch (const rapt::Error& error) {
                           refused += error.code() == ErrorCode::unknown_name;
                         }
                         return refused;
                       }),
              2)
        << name;
}

TEST(InstructionSets, SetsThatCannotRunHereAreRefused) {
  // Does not read the list, which would choose a set for the child processes too.
  std::vector<std::string> missing;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) missing.push_back("avx2");
  if (!__builtin_cpu_supports("avx512f")) missing.push_back("avx512");
  if (!rapt::cpu_has("amx")) missing.push_back("amx");
#endif
  std::erase_if(missing, [](const std::string& name) { return !is_built(name); });
  if (missing.empty()) GTEST_SKIP() << "this machine runs every set of this build";
  for (const std::string& name : missing)
    EXPECT_EQ(in_child(name.c_str(),
                       [name] {
                         try {
                           rapt::instruction_sets();
                         } catch (const rapt::Error& error) {
                           const bool why =
                               std::string(error.what()).find(rapt::note_of(name.c_str())) !=
                               std::string::npos;
                           return error.code() == ErrorCode::unsupported && why ? 0 : 1;
                         }
                         return 2;
                       }),
              0);
}

// A CPU without tile registers has no note. A CPU that may not use them has one that says why.
TEST(InstructionSets, ARefusalOfTheSystemIsNamed) {
  using rapt::TileSupport;
  EXPECT_EQ((TileSupport{true, true, 0}.refusal()), "");
  EXPECT_TRUE((TileSupport{true, true, 0}.usable()));
  EXPECT_EQ((TileSupport{false, false, 0}.refusal()), "");
  EXPECT_FALSE((TileSupport{false, false, 0}.usable()));
  EXPECT_EQ((TileSupport{true, false, 0}.refusal()),
            "the operating system does not save tile registers");
  EXPECT_FALSE((TileSupport{true, false, 0}.usable()));
  EXPECT_EQ((TileSupport{true, true, 1}.refusal()),
            "the operating system refuses tile registers (error 1)");
  EXPECT_FALSE((TileSupport{true, true, 1}.usable()));
}

TEST(InstructionSets, NotesAreThoseOfTheSets) {
  EXPECT_EQ(in_child("scalar",
                     [] {
                       for (const rapt::InstructionSet& set : rapt::instruction_sets()) {
                         const std::string name = set.name, note = set.note;
                         if (note != rapt::note_of(set.name)) return 1;
                         if (name == "amx_emulated" && note.empty()) return 2;
                         if (name.starts_with("avx") && !note.empty()) return 3;
                         // A usable set has no note.
                         if (name == "amx" && set.available && !note.empty()) return 4;
                       }
                       return 0;
                     }),
            0);
}

}  // namespace

#pragma once
// Runs the built program in an empty folder and collects its output.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/support/refused_calls.h"
#include "rapt/io/tensor_file.h"
#include "rapt/tensor.h"

namespace rapt::cli_test {

inline constexpr int64_t kMiB = int64_t{1} << 20;

struct Ran {
  int exit = -1;           // -1: ended by a signal
  int signal = 0;          // which
  std::string out;         // standard output
  std::string err;         // standard error
  int64_t peak_bytes = 0;  // the most memory that it held, mapped files included
};

enum class Stdout { pipe, terminal, closed_pipe, closed_pipe_without_signal, full_disk };
inline constexpr int kNoSuchRight = 126;  // the exit code where How cannot be had here

enum class Stderr { pipe, terminal };

// Whether the system gives the pseudo-terminals that Stdout::terminal and Stderr::terminal need.
// Containers may lack them.
bool has_terminals();
inline constexpr const char* kNoTerminal = "no pseudo-terminal here (/dev/ptmx, /dev/pts)";

struct How {
  std::string input = {};                                     // standard input
  bool hold_input = false;                                    // it says nothing and does not end
  std::vector<std::pair<std::string, std::string>> env = {};  // added to the environment
  Stdout out = Stdout::pipe;
  Stderr err = Stderr::pipe;
  int columns = 80;                       // of a terminal on standard output
  int64_t most_file_bytes = -1;           // RLIMIT_FSIZE; -1: none
  int64_t most_memory = -1;               // RLIMIT_AS; -1: none
  bool without_rights = false;            // held by permissions, also where this is root
  std::vector<RefusedCall> refused = {};  // system calls that fail, with the error of each
  std::vector<int> closed = {};           // of 0, 1, 2: streams that it is started without
  // Called with the process id and what stderr has said so far, until it returns true.
  std::function<bool(int, const std::string&)> watch = {};
};

// A test with a folder of its own, which is the program's working folder.
class RaptTest : public testing::Test {
 protected:
  RaptTest();
  ~RaptTest() override;

  Ran rapt(const std::vector<std::string>& arguments, const How& how = {}) const;

  std::filesystem::path folder() const { return folder_; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> files() const;  // all of them, sorted, hidden ones too
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;
  void save(const std::string& name, const TensorView& tensor) const;  // as .npy
  // f32 [rows, 64] of zeros as .npy, that take no room: holes of the file system.
  void save_zeros(const std::string& name, int64_t rows) const;
  // As .npz or .safetensors, by the ending.
  void save_all(const std::string& name, const std::vector<NamedTensor>& tensors) const;
  Tensor load(const std::string& name) const;
  Tensor load(const std::string& file, const std::string& name) const;  // of several

  // Writes q.npy [batch, heads, q_len, d], k.npy [batch, kv_heads, k_len, d] and v.npy.
  void save_problem(int64_t batch = 2, int64_t heads = 4, int64_t kv_heads = 2, int64_t q_len = 6,
                    int64_t k_len = 9, int64_t d = 8) const;

  // "attend --query q.npy --key k.npy --value v.npy" and what follows.
  static std::vector<std::string> attend(const std::vector<std::string>& more = {});

 private:
  std::filesystem::path folder_;
};

// Numbers between -1 and 1 that differ from place to place.
Tensor filled(DType dtype, std::vector<int64_t> shape, uint64_t seed);

bool contains(const std::string& text, const std::string& part);

// The same bytes, dtype and shape.
void expect_same(const TensorView& a, const TensorView& b);

}  // namespace rapt::cli_test

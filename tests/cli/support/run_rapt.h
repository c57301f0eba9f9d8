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
  int signal = 0;          // the signal that ended it, or 0
  std::string out;         // standard output
  std::string err;         // standard error
  int64_t peak_bytes = 0;  // largest resident memory, mapped files included
};

enum class Stdout { pipe, terminal, closed_pipe, closed_pipe_without_signal, full_disk };
inline constexpr int kNoSuchRight = 126;  // exit code if the system does not allow How

enum class Stderr { pipe, terminal };

// Whether the system has the pseudo-terminals that Stdout::terminal and Stderr::terminal need.
// Containers may lack them.
bool has_terminals();
inline constexpr const char* kNoTerminal = "no pseudo-terminal here (/dev/ptmx, /dev/pts)";

struct How {
  std::string input = {};   // standard input
  bool hold_input = false;  // standard input stays open and silent
  std::vector<std::pair<std::string, std::string>> env = {};  // added to the environment
  Stdout out = Stdout::pipe;
  Stderr err = Stderr::pipe;
  int columns = 80;                       // width of a terminal on standard output
  int64_t most_file_bytes = -1;           // RLIMIT_FSIZE; -1: none
  int64_t most_memory = -1;               // RLIMIT_AS; -1: none
  bool without_rights = false;            // file permissions apply, also to root
  std::vector<RefusedCall> refused = {};  // system calls that fail, with the error of each
  std::vector<int> closed = {};  // those of the streams 0, 1, 2 that are closed at the start
  // Called repeatedly with the process id and the stderr so far, until it returns true.
  std::function<bool(int, const std::string&)> watch = {};
};

// A test with its own folder, which is the program's working directory.
class RaptTest : public testing::Test {
 protected:
  RaptTest();
  ~RaptTest() override;

  Ran rapt(const std::vector<std::string>& arguments, const How& how = {}) const;

  std::filesystem::path folder() const { return folder_; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> files() const;  // all files, sorted, hidden ones too
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;
  void save(const std::string& name, const TensorView& tensor) const;  // as .npy
  // Writes f32 zeros [rows, 64] as a sparse .npy file, which takes no disk space.
  void save_zeros(const std::string& name, int64_t rows) const;
  // Writes .npz or .safetensors, as the ending says.
  void save_all(const std::string& name, const std::vector<NamedTensor>& tensors) const;
  Tensor load(const std::string& name) const;
  Tensor load(const std::string& file,
              const std::string& name) const;  // from a file with several tensors

  // Writes q.npy [batch, heads, q_len, d], k.npy [batch, kv_heads, k_len, d] and v.npy.
  void save_problem(int64_t batch = 2, int64_t heads = 4, int64_t kv_heads = 2, int64_t q_len = 6,
                    int64_t k_len = 9, int64_t d = 8) const;

  // "attend --query q.npy --key k.npy --value v.npy" followed by `more`.
  static std::vector<std::string> attend(const std::vector<std::string>& more = {});

 private:
  std::filesystem::path folder_;
};

// Numbers between -1 and 1 that vary from element to element.
Tensor filled(DType dtype, std::vector<int64_t> shape, uint64_t seed);

bool contains(const std::string& text, const std::string& part);

// Expects equal bytes, dtype and shape.
void expect_same(const TensorView& a, const TensorView& b);

}  // namespace rapt::cli_test

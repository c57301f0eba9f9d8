// Runs the program by fork, exec and pipes. A process without output for a minute is killed and
// fails its test. Under sanitizers, where arithmetic takes ten times as long, the limit is five
// minutes.
#include "cli/support/run_rapt.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "rapt/io/npy.h"
#include "rapt/io/npz.h"
#include "rapt/io/safetensors.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read = ends[0];
    write = ends[1];
  }
};

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// Replaces a pipe by a pseudo-terminal.
void open_terminal(Pipe& stream, const winsize* size) {
  close_fd(stream.read);
  close_fd(stream.write);
  if (openpty(&stream.read, &stream.write, nullptr, nullptr, size) != 0)
    throw std::system_error(errno, std::generic_category(), "openpty");
}

[[noreturn]] void become_rapt(const std::string& folder, const std::vector<std::string>& arguments,
                              const How& how, int in, int out, int err) {
  if (chdir(folder.c_str()) != 0) _exit(kNoSuchRight);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGPIPE, how.out == Stdout::closed_pipe_without_signal ? SIG_IGN : SIG_DFL);
  for (const char* name : {"NO_COLOR", "COLORTERM", "COLUMNS"}) unsetenv(name);
  if (how.most_file_bytes >= 0) {
    const rlimit limit = {static_cast<rlim_t>(how.most_file_bytes), RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const int stream : how.closed) close(stream);
  // The program's first files get the descriptors 3 and 4 even if the test has others open.
  for (int fd = 3; fd < 1024; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (how.most_memory >= 0) {
    const rlimit limit = {static_cast<rlim_t>(how.most_memory), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
  }
  for (const auto& [name, value] : how.env) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>("rapt")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (how.without_rights && !drop_capabilities()) _exit(kNoSuchRight);
  if (!how.refused.empty() && !refuse_calls(how.refused)) _exit(kNoSuchRight);
  execv(RAPT_PROGRAM, argv.data());
  _exit(127);
}

}  // namespace

bool has_terminals() {
  int ends[2];
  if (openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) return false;
  close(ends[0]);
  close(ends[1]);
  return true;
}

RaptTest::RaptTest() {
  std::string name = (std::filesystem::temp_directory_path() / "rapt_cli_XXXXXX").string();
  if (!mkdtemp(name.data())) std::abort();
  folder_ = name;
}

RaptTest::~RaptTest() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Ran RaptTest::rapt(const std::vector<std::string>& arguments, const How& how) const {
  Pipe in, out, err;
  if (how.out == Stdout::full_disk) {
    close_fd(out.write);
    out.write = open("/dev/full", O_WRONLY | O_CLOEXEC);
  }
  if (how.out == Stdout::terminal) {
    winsize size{};
    size.ws_row = 40;
    size.ws_col = static_cast<unsigned short>(how.columns);
    open_terminal(out, &size);
  }
  if (how.err == Stderr::terminal) open_terminal(err, nullptr);
  if (how.out == Stdout::closed_pipe || how.out == Stdout::closed_pipe_without_signal) {
    close_fd(out.read);
  }
  const pid_t child = fork();
  if (child == 0) become_rapt(folder_, arguments, how, in.read, out.write, err.write);
  close_fd(in.read);
  close_fd(out.write);
  close_fd(err.write);
  std::signal(SIGPIPE, SIG_IGN);  // the program may end without reading its input
  size_t sent = 0;
  if (how.input.empty() && !how.hold_input) close_fd(in.write);

  Ran ran;
  bool watching = static_cast<bool>(how.watch);
  int silent = 0;  // counts slices without output
  constexpr int kMinutes = RAPT_SANITIZED ? 5 : 1;
  constexpr int kSlice = 20,
                kPatience = kMinutes * 60'000 / kSlice;  // kSlice in ms, kPatience in slices
  while (out.read >= 0 || err.read >= 0) {
    pollfd fds[] = {
        {out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {how.hold_input ? -1 : in.write, POLLOUT, 0}};
    const int ready = poll(fds, 3, kSlice);
    silent = ready > 0 ? 0 : silent + 1;
    if (silent > kPatience) {
      kill(child, SIGKILL);
      ADD_FAILURE() << "no end within " << kMinutes << " minutes";
      silent = 0;
    }
    if (watching) watching = !how.watch(child, ran.err);
    if (fds[2].revents) {
      const ssize_t count = ::write(in.write, how.input.data() + sent, how.input.size() - sent);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 || sent == how.input.size()) close_fd(in.write);
    }
    const std::pair<int*, std::string*> streams[] = {{&out.read, &ran.out}, {&err.read, &ran.err}};
    for (int i = 0; i < 2; ++i) {
      if (!fds[i].revents) continue;
      char buffer[65536];
      const ssize_t count = ::read(*streams[i].first, buffer, sizeof buffer);
      if (count > 0) {
        streams[i].second->append(buffer, static_cast<size_t>(count));
      } else {
        close_fd(*streams[i].first);
      }
    }
  }
  close_fd(in.write);
  int status = 0;
  rusage used = {};
  wait4(child, &status, 0, &used);
  ran.peak_bytes = used.ru_maxrss * 1024;
  if (WIFEXITED(status)) ran.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ran.signal = WTERMSIG(status);
  return ran;
}

std::vector<std::string> RaptTest::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void RaptTest::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(folder_ / name, std::ios::binary) << bytes;
}

std::string RaptTest::read(const std::string& name) const {
  std::ostringstream bytes;
  bytes << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
  return bytes.str();
}

void RaptTest::save(const std::string& name, const TensorView& tensor) const {
  write_npy(path(name), tensor, Overwrite::yes);
}

void RaptTest::save_zeros(const std::string& name, int64_t rows) const {
  std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", 64), }";
  header.resize(117, ' ');
  write(name, std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n");
  std::filesystem::resize_file(path(name), static_cast<uintmax_t>(128 + rows * 256));
}

void RaptTest::save_all(const std::string& name, const std::vector<NamedTensor>& tensors) const {
  OutputFile file(path(name), Overwrite::yes);
  const WriteBytes write = [&](const void* data, int64_t bytes) { file.write(data, bytes); };
  if (name.ends_with(".npz")) {
    write_npz(write, tensors);
  } else {
    write_safetensors(write, tensors);
  }
  file.commit();
}

Tensor RaptTest::load(const std::string& name) const { return read_npy(path(name)); }

Tensor RaptTest::load(const std::string& file, const std::string& name) const {
  const TensorFile opened = open_tensor_file(path(file));
  const StoredTensor* const tensor = opened.find(name);
  if (tensor == nullptr) throw std::runtime_error(file + " has no " + name);
  return Tensor::copy_of(rapt::load(*tensor).view());
}

void RaptTest::save_problem(int64_t batch, int64_t heads, int64_t kv_heads, int64_t q_len,
                            int64_t k_len, int64_t d) const {
  save("q.npy", filled(DType::f32, {batch, heads, q_len, d}, 1));
  save("k.npy", filled(DType::f32, {batch, kv_heads, k_len, d}, 2));
  save("v.npy", filled(DType::f32, {batch, kv_heads, k_len, d}, 3));
}

std::vector<std::string> RaptTest::attend(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"attend", "--query", "q.npy", "--key",
                                        "k.npy",  "--value", "v.npy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Tensor filled(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor(dtype, shape);
  uint64_t state = seed;
  const auto next = [&] {  // Knuth's MMIX generator; its high bits are good enough here
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  };
  if (dtype == DType::f64) {
    for (double& x : tensor.values<double>()) x = next();
  } else {
    for (float& x : tensor.values<float>()) x = static_cast<float>(next());
  }
  return tensor;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_same(const TensorView& a, const TensorView& b) {
  ASSERT_EQ(a.dtype, b.dtype);
  ASSERT_EQ(to_string(a.dims()), to_string(b.dims()));
  const Tensor x = Tensor::copy_of(a), y = Tensor::copy_of(b);
  EXPECT_EQ(
      std::memcmp(x.view().data, y.view().data, static_cast<size_t>(x.count() * size_of(a.dtype))),
      0);
}

}  // namespace rapt::cli_test

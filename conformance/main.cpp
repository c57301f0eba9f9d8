// onnx_conformance [ARCHIVE]: runs the node tests of ONNX in a .tar.gz and prints the score of each
// operator, and every test that fails with the reason.
//
// Without ARCHIVE: onnx_node_tests.tar.gz in the folder that RAPT_SHARED_DATA names. Exit codes:
// 0 all that is run passes, 1 something fails, 77 there are no data or this CPU lacks the
// instruction set that RAPT_ISA names (ctest calls that skipped).
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "operators.h"
#include "rapt/error.h"
#include "rapt/instruction_sets.h"

namespace rapt::conformance {
namespace {

constexpr int kSkipped = 77;

// The reason why the test fails; none if it passes.
std::optional<std::string> failure(const Operator& op, const NodeTest& test) {
  try {
    const Outputs got = op.run(test);
    for (size_t i = 0; i < test.outputs.size(); ++i)
      if (test.wants(i))
        if (const auto why = difference(got[i], test.outputs[i]))
          return test.node.outputs[i] + ": " + *why;
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

int run(const std::string& path) {
  const std::vector<NodeTest> tests = read_node_tests(read_tar_gz(path));
  int passed_of_all = 0, run_of_all = 0;
  size_t listed = 0;
  for (const Operator& op : kOperators) {
    int count = 0, passed = 0;
    for (const NodeTest& test : tests) {
      if (test.node.op_type != op.op_type) continue;
      ++count, ++listed;
      if (!op.run) continue;
      if (const auto why = failure(op, test))
        std::printf("FAILED %s: %s\n", test.name.c_str(), why->c_str());
      else
        ++passed;
    }
    if (!op.run) {
      std::printf("%s: %d not run: %s\n", op.op_type, count, op.reason);
      continue;
    }
    std::printf("%s %d/%d\n", op.op_type, passed, count);
    run_of_all += count, passed_of_all += passed;
  }
  std::printf("all %d/%d\n", passed_of_all, run_of_all);
  if (listed < tests.size())
    std::printf("%zu tests are of operators that are not listed here\n", tests.size() - listed);
  return run_of_all > 0 && passed_of_all == run_of_all && listed == tests.size() ? 0 : 1;
}

// Whether this machine lacks the instruction set that RAPT_ISA names.
bool lacks_instruction_set() {
  try {
    for (const InstructionSet& set : instruction_sets())
      if (set.chosen) std::printf("instruction set: %s\n", set.name);
    return false;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    std::printf("skipped: %s\n", error.what());
    return true;
  }
}

}  // namespace
}  // namespace rapt::conformance

int main(int argc, char** argv) {
  using namespace rapt::conformance;
  try {
    if (lacks_instruction_set()) return kSkipped;
    if (argc > 1) return run(argv[1]);
    const char* folder = std::getenv("RAPT_SHARED_DATA");
    const std::string path = (folder ? std::string(folder) : ".") + "/onnx_node_tests.tar.gz";
    if (std::filesystem::exists(path)) return run(path);
    std::printf("skipped: there is no %s; RAPT_SHARED_DATA names its folder\n", path.c_str());
    return kSkipped;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

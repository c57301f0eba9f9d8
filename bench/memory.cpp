// Measures the memory of the forward pass, and of forward and backward pass together: by how much a
// call raises the peak of the process's resident memory above its inputs and outputs (gradients
// included). Causal, d = 64, 2 heads, all threads of the machine.
//
//   bench_memory [--tokens N] [--dtype f32|f64|bf16|f16] [--capture NAME] [--method SPEC]
//                [--limit-mib M] [--json]
//   bench_memory --captures      their names
//
// Exits with 1 if the growth exceeds the limit. Each process measures one problem, since a peak
// never falls. The peak is the operating system's (VmHWM), not a count of allocations: it includes
// all memory, whoever allocated it, without the pages of files: a first call reads a MiB of code.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "check/tensors/arrays.h"
#include "check/tensors/random.h"
#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kHeadDim = 64;
constexpr int64_t kRows = 16, kTopK = 16, kMapSide = 512;

// Limits of the growth in MiB, for any number of tokens.
constexpr double kPlainLimit = 32, kCaptureLimit = 48, kGradientsLimit = 64;
constexpr double kMiB = 1 << 20;

// A line of /proc/self/status in KiB; throws if the system does not tell.
int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1);
  throw rapt::Error(rapt::ErrorCode::unsupported, "/proc/self/status has no " + field);
}

// VmRSS or VmHWM without the pages of files that the process holds now.
int64_t own_kib(const std::string& field) { return status_kib(field) - status_kib("RssFile"); }

template <class T>
void fill(rapt::Tensor& tensor) {
  uint32_t x = 1;
  for (T& element : tensor.values<T>()) {
    x = x * 1664525 + 1013904223;  // generator of Numerical Recipes; any distribution will do
    const float number = static_cast<float>(x >> 8) * 0x1p-24f - 0.5f;
    if constexpr (requires { T::from(number); })
      element = T::from(number);
    else
      element = static_cast<T>(number);
  }
}

// A tensor whose pages have all been written, so that they are resident.
rapt::Tensor touched(rapt::DType dtype, std::initializer_list<int64_t> shape) {
  rapt::Tensor t(dtype, shape);
  switch (dtype) {
    case rapt::DType::f64:
      fill<double>(t);
      break;
    case rapt::DType::bf16:
      fill<rapt::BFloat16>(t);
      break;
    case rapt::DType::f16:
      fill<rapt::Float16>(t);
      break;
    case rapt::DType::i64:
      fill<int64_t>(t);
      break;
    default:
      fill<float>(t);
  }
  return t;
}

struct Arguments {
  int64_t tokens = 65536;
  rapt::DType dtype = rapt::DType::f32;
  std::string capture = "none", method;  // "": exact attention
  double limit_mib = -1;                 // the capture's own
  bool json = false;
};

// One call: its inputs, options and outputs. All its tensors are resident.
struct Call {
  rapt::Tensor query, key, value, output, lse;
  rapt::Tensor captured[2];
  std::vector<int64_t> rows;
  rapt::Causal causal;
  std::unique_ptr<rapt::Method> method;
  rapt::AttentionOptions options;
  rapt::AttentionOutputs outputs;

  // Of the backward pass, if there is one.
  bool backward = false;
  rapt::Tensor d_output, d_query, d_key, d_value;
  rapt::BackwardRequest request;

  explicit Call(const Arguments& a)
      : query(touched(a.dtype, {kHeads, a.tokens, kHeadDim})),
        key(touched(a.dtype, {kHeads, a.tokens, kHeadDim})),
        value(touched(a.dtype, {kHeads, a.tokens, kHeadDim})),
        output(touched(a.dtype, {kHeads, a.tokens, kHeadDim})) {
    lse = statistic({kHeads, a.tokens});
    options.masks = {&causal};
    if (!a.method.empty()) method = rapt::make_method(a.method);
    options.method = method.get();
    outputs.state = {output, lse};
  }
  Call(const Call&) = delete;

  rapt::Tensor statistic(std::initializer_list<int64_t> shape) const {
    return touched(query.dtype() == rapt::DType::f64 ? rapt::DType::f64 : rapt::DType::f32, shape);
  }
  const rapt::TensorView capture(int i, rapt::Tensor tensor) {
    captured[i] = std::move(tensor);
    return captured[i];
  }
  int64_t tokens() const { return query.dim(1); }

  void ask_for_gradients(rapt::BackwardPasses passes) {
    backward = true;
    request.passes = passes;
    for (rapt::Tensor* gradient : {&d_output, &d_query, &d_key, &d_value})
      *gradient = touched(query.dtype(), {kHeads, tokens(), kHeadDim});
  }

  // Computes the call in a workspace for all passes; returns the bytes of the workspace.
  size_t run() {
    const size_t bytes = rapt::workspace_bytes(query, key, value, options);
    const size_t backward_bytes =
        backward ? rapt::backward_workspace_bytes(query, key, value, options, request) : 0;
    const size_t most = std::max(bytes, backward_bytes);
    const std::unique_ptr<std::byte[]> workspace(new std::byte[most]);
    rapt::scaled_dot_product_attention(query, key, value, options, outputs,
                                       {workspace.get(), most});
    if (backward)
      rapt::scaled_dot_product_attention_backward(
          query, key, value, options, {outputs.state, d_output, {}, {}}, request,
          {d_query, d_key, d_value, {}, {}, {}}, {workspace.get(), most});
    return most;
  }
};

struct Capture {
  const char* name;
  double limit_mib;
  void (*ask)(Call&);
  int queries_kept = 0;  // how often those of every head in flight may be kept as f32 beside that
};

constexpr Capture kCaptures[] = {
    {"none", kPlainLimit, [](Call&) {}},
    {"entropy", kCaptureLimit,
     [](Call& call) {
       call.options.entropy = true;
       call.outputs.entropy = call.capture(0, call.statistic({kHeads, call.tokens()}));
     }},
    {"top-16", kCaptureLimit,
     [](Call& call) {
       call.options.top_k = kTopK;
       call.outputs.top_weights = call.capture(0, call.statistic({kHeads, call.tokens(), kTopK}));
       call.outputs.top_keys =
           call.capture(1, touched(rapt::DType::i64, {kHeads, call.tokens(), kTopK}));
     }},
    {"rows", kCaptureLimit,
     [](Call& call) {  // anywhere
       check::Random random(1);
       call.rows = random.permutation(call.tokens());
       call.rows.resize(kRows);
       call.rows.shrink_to_fit();
       call.options.weights.emplace().rows = call.rows;
       call.outputs.weights = call.capture(0, call.statistic({kHeads, kRows, call.tokens()}));
     }},
    {"received", kCaptureLimit,
     [](Call& call) {
       call.options.received = true;
       call.outputs.received = call.capture(0, call.statistic({kHeads, call.tokens()}));
     }},
    {"map", kCaptureLimit,
     [](Call& call) {
       const int64_t side = std::min(kMapSide, call.tokens());
       call.options.map = rapt::MapRequest{side, side};
       call.outputs.map = call.capture(0, call.statistic({kHeads, side, side}));
     }},
    {"gradients", kGradientsLimit,
     [](Call& call) { call.ask_for_gradients(rapt::BackwardPasses::one); }, 3},
    {"gradients-in-two-passes", kGradientsLimit,
     [](Call& call) { call.ask_for_gradients(rapt::BackwardPasses::two); }}};

double limit_mib_of(const Capture& capture, int64_t tokens, int threads) {
  const auto heads_in_flight = static_cast<double>(std::min<int64_t>(kHeads, threads));
  const double of_head = static_cast<double>(tokens * kHeadDim) * sizeof(float) / kMiB;
  return capture.limit_mib + capture.queries_kept * of_head * heads_in_flight;
}

const Capture* capture_of(const std::string& name) {
  for (const Capture& capture : kCaptures)
    if (name == capture.name) return &capture;
  return nullptr;
}

bool parse_dtype(const std::string& name, rapt::DType& dtype) {
  for (const rapt::DType one :
       {rapt::DType::f32, rapt::DType::f64, rapt::DType::bf16, rapt::DType::f16})
    if (name == rapt::name_of(one)) return dtype = one, true;
  return false;
}

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--json")
      arguments.json = true;
    else if (word == "--tokens" && has_value)
      arguments.tokens = std::atoll(argv[++i]);
    else if (word == "--limit-mib" && has_value)
      arguments.limit_mib = std::atof(argv[++i]);
    else if (word == "--capture" && has_value)
      arguments.capture = argv[++i];
    else if (word == "--method" && has_value)
      arguments.method = argv[++i];
    else if (word != "--dtype" || !has_value || !parse_dtype(argv[++i], arguments.dtype))
      return false;
  }
  return arguments.tokens >= kTopK && capture_of(arguments.capture);
}

void print(const Arguments& a, const rapt::Plan& plan, size_t workspace_bytes, double growth_mib,
           double limit_mib) {
  const char* dtype = rapt::name_of(a.dtype);
  const std::string what = (a.method.empty() ? "" : a.method + ", ") + a.capture;
  const double workspace = static_cast<double>(workspace_bytes) / kMiB;
  const double matrices = static_cast<double>(plan.matrix_bytes) / kMiB;
  if (a.json)
    std::printf(
        "{\"table\": \"memory\", \"name\": \"%s, %s\", \"tokens\": %lld, \"growth_mib\": %.2f, "
        "\"workspace_mib\": %.3f, \"matrix_mib\": %.0f, \"goal\": %g}\n",
        dtype, what.c_str(), static_cast<long long>(a.tokens), growth_mib, workspace, matrices,
        limit_mib);
  else
    std::printf(
        "n = %lld, d = %lld, causal, %lld heads, %s, %s: peak resident memory grew by "
        "%.1f MiB, %s the limit of %g MiB; workspace %.2f MiB, the matrices would take %.0f MiB\n",
        static_cast<long long>(a.tokens), static_cast<long long>(kHeadDim),
        static_cast<long long>(kHeads), dtype, what.c_str(), growth_mib,
        growth_mib <= limit_mib ? "within" : "beyond", limit_mib, workspace, matrices);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2 && std::string(argv[1]) == "--captures") {
    for (const Capture& capture : kCaptures) std::puts(capture.name);
    return 0;
  }
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: bench_memory [--tokens N] [--dtype f32|f64|bf16|f16] [--capture NAME] "
                 "[--method SPEC] [--limit-mib M] [--json] | --captures; N at least %lld\n",
                 static_cast<long long>(kTopK));
    return 2;
  }
  Call call(arguments);
  const Capture& capture = *capture_of(arguments.capture);
  capture.ask(call);

  // Counts from the memory that is resident now, not from the peak so far: memory that was freed
  // before would hide growth.
  const int64_t before = own_kib("VmRSS");
  const rapt::Plan plan = rapt::plan(call.query, call.key, call.value, call.options);
  const size_t workspace_bytes = call.run();
  const double growth_mib = static_cast<double>(own_kib("VmHWM") - before) / 1024;

  const double limit_mib = arguments.limit_mib < 0
                               ? limit_mib_of(capture, arguments.tokens, plan.threads)
                               : arguments.limit_mib;
  print(arguments, plan, workspace_bytes, growth_mib, limit_mib);
  return growth_mib <= limit_mib ? 0 : 1;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}

// rapt check: problems of one line each, computed and compared with the float64 reference.
//
// The descriptors are those of check/problem/descriptor.h. Large problems are compared on rows that
// are drawn from the descriptor's seed, and the report says which.
#include <fmt/format.h>

#include <algorithm>

#include "check/compare/gradient_comparison.h"
#include "check/problem/mask_spec.h"
#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/measure/check_report.h"
#include "cli/measure/described_problem.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/catalogue.h"
#include "rapt/instruction_sets.h"
#include "timing/sampling.h"

namespace rapt::cli {
namespace {

// The bytes of the inputs, of the results of a call, and of the compared numbers: truth, plain
// loop, floor and place, 16 + 16 + 8 + 8 bytes. Transformed rows add their copy and their rotation
// angles, in the type of the truth: at most 16 bytes each, and 8 of errors.
double bytes_needed(const check::Descriptor& d, const check::Sample& sample) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double sampled =
      real(sample.heads ? static_cast<int64_t>(sample.heads->size()) : d.heads()) *
      real(sample.rows ? static_cast<int64_t>(sample.rows->size()) : d.q_len);
  const double pairs = d.captures.top_k > 0 ? sampled * d.keys_of_head() * 17 : 0;
  // A result, and the same as doubles.
  const double results = count_of(d.leading, d.q_len, 1) * count_per_query(d) * 16 +
                         count_of(d.leading, d.k_len, d.captures.received ? 60 : 0);
  const double changed = d.rows.any() ? 40 * real(d.q_len + d.k_len) * real(d.head_dim) : 0;
  return bytes_of_inputs(d) + changed + results + sampled * count_per_query(d) * 48 + pairs;
}

// The additional bytes of the backward pass: gradients of the results and of the inputs, the latter
// also in compared form (48 bytes) and as sums (8 + 8 + 4), and 3 q_len head_dim numbers of
// workspace.
double bytes_of_gradients(const check::Descriptor& d) {
  double inputs = count_of(d.query.leading, d.q_len, d.head_dim) +
                  count_of(d.key.leading, d.k_len, d.head_dim) +
                  count_of(d.value.leading, d.k_len, d.value_dim);
  if (d.has_bias) inputs += count_of(d.bias_dims, 1, 1);
  for (size_t part = 0; part < check::RelativeSpec::kParts; ++part)
    if (d.relative.tables[part].there)
      inputs += count_of(d.relative.dims(part, d.head_dim, d.value_dim), 1, 1);
  return 80 * inputs + count_of(d.leading, d.q_len, 1) * count_per_query(d) * 16 +
         3 * 8 * static_cast<double>(d.q_len) * static_cast<double>(d.head_dim);
}

// Measures the median time of calls that are repeated for a tenth of a second.
void measure(const check::Case& c, const Context& context, CheckReport& report) {
  constexpr double kSeconds = 0.1;
  constexpr size_t kMostCalls = 1000;
  const check::Case::Inputs in = c.laid_out();
  const AttentionOptions options = c.wanted_options();
  std::vector<double> seconds;
  for (double sum = 0; sum < kSeconds && seconds.size() < kMostCalls; sum += seconds.back()) {
    seconds.push_back(timing::seconds_per_call(
        1, [&] { scaled_dot_product_attention(in.query, in.key, in.value, options, context); }));
  }
  report.cpu_seconds = timing::median(seconds);
  report.calls = seconds.size();
  report.plan = plan(in.query, in.key, in.value, options, context);
  report.peak_gflops = measure_fma_gflops(0.02);
}

CheckReport checked(const check::Descriptor& descriptor, bool gradients, MemoryBudget& budget) {
  const bool backward = gradients && !descriptor.cache;  // calls on a cache have none
  CheckReport report;
  report.descriptor = descriptor;
  report.sample = check::sample_of(descriptor);
  const double bytes =
      bytes_needed(descriptor, report.sample) + (backward ? bytes_of_gradients(descriptor) : 0);
  constexpr double kMost = 0x1p62;
  budget.take(static_cast<int64_t>(std::min(bytes, kMost)), to_string(descriptor));
  const check::Case c(descriptor);
  Context context;
  context.threads = 1;  // so that the thread's CPU time is that of the call
  context.cancel = &interruption();
  report.comparison = compare(c, run(c, context), report.sample);
  stop_if_interrupted();
  if (backward) {
    report.gradient_sample = check::gradient_sample_of(descriptor);
    const check::GradientCase g(c, *report.gradient_sample);
    for (const check::Compared& tensor : compare(g, run_backward(g, context)).tensors)
      report.comparison.tensors.push_back(tensor);
    stop_if_interrupted();
  }
  measure(c, context, report);
  return report;
}

struct CheckArguments {
  std::vector<std::string> descriptors;
  std::string memory_limit;
  bool json = false, forward_only = false;
};

// All lines are read before the first is computed.
std::vector<check::Descriptor> problems_of(const CheckArguments& a) {
  if (a.descriptors.empty()) throw usage_error("expected a descriptor");
  std::vector<check::Descriptor> problems;
  for (const std::string& text : a.descriptors) problems.push_back(parse_problem(text));
  return problems;
}

void run_check(const CheckArguments& a) {
  const std::vector<check::Descriptor> descriptors = problems_of(a);
  const int64_t most = parse_memory_limit(a.memory_limit);
  std::vector<nlohmann::ordered_json> reports;
  size_t different = 0;
  for (const check::Descriptor& descriptor : descriptors) {
    stop_if_interrupted();
    MemoryBudget budget(most);  // the memory of each problem is freed
    const CheckReport report = checked(descriptor, !a.forward_only, budget);
    different += !report.comparison.ok();
    if (a.json) {
      reports.push_back(check_json(report));
    } else {
      fmt::print("{}", check_text(report));
      std::fflush(stdout);
    }
  }
  if (a.json) print_json(check_document(reports));
  if (different == 0) return;
  finish_stdout();
  throw Failure(Exit::differs,
                fmt::format("{} of {} {} from the reference", different, descriptors.size(),
                            different == 1 ? "differs" : "differ"));
}

}  // namespace

Command add_check(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("check", "compute problems of one line and compare with float64");
  const auto a = arguments_of<CheckArguments>(*app);
  app->add_option("DESCRIPTOR", a->descriptors, "b2h8/2q1024k1024d64:bf16:mask=causal&lengths")
      ->type_name("");
  app->add_flag("--forward-only", a->forward_only, "leave the gradients out");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->add_option("--memory-limit", a->memory_limit,
                  "refuse to take more, 512M or 8GiB (default: what is available)")
      ->type_name("SIZE");
  app->footer(fmt::format(
      "A descriptor is SHAPE[:FIELD...]:\n"
      "  SHAPE   b2h8/2q1024k1024d64v32: batches, heads / key heads, queries, keys, head_dim,\n"
      "          value_dim; [2,1,3]h4/2q... with more leading dimensions\n"
      "  FIELD   f32 f64 bf16 f16 bf16>f32 f16>f32\n"
      "          mask=causal(2)&!(M|M) with M of {}\n"
      "          bias[=[dims],PART_OF_INF,DTYPE,before]; scale=X; packed=N\n"
      "          cache=linear|circular|pages(16,circular,shared)\n"
      "          score=S,S,... with S of {}\n"
      "          rows=cosine(1e-6)+rotary(interleaved,dims=32,theta=10000,query=512,key=0+2i)\n"
      "          relative=keys+queries+values+content+position(33,center=16,log=4..64)\n"
      "          norm=N with N of {}\n"
      "          method=M with M of {}\n"
      "          layout=dense|padded|transposed|negative|strided|interleaved|broadcast(DIM)\n"
      "          weights(0..4) map(8,8,max) top_k(16) entropy received\n"
      "          precision=fma|fast; invariant; dropout=P,SEED; backward=lse,f32,two; magnitude=X; "
      "seed=N\n"
      "          keys=equal|rising; set=key[1,7,*]=nan,value[0,2,3]=-inf,d_output[0,0,1]=1e30\n\n"
      "Exit code 1 if a result differs from the reference by more than it may.\n\n"
      "  rapt check 'b2h8/2q1024k1024d64:mask=window(256,0)&lengths:seed=7'",
      usual_texts(check::leaf_masks()), usual_texts(score_declarations()),
      usual_texts(normalizer_declarations()), usual_texts(method_declarations())));
  return {app,
          [a] {
            problems_of(*a);
            parse_memory_limit(a->memory_limit);
          },
          [a] { run_check(*a); }};
}

}  // namespace rapt::cli

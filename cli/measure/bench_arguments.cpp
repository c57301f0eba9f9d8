#include "cli/measure/bench_arguments.h"

#include <algorithm>
#include <set>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/measure/described_problem.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// Two heads, so that the end of one head and the start of the next overlap.
constexpr const char* kHeads = "2";
constexpr const char* kLengths = "1024,4096";
constexpr const char* kHeadDim = "64";
constexpr const char* kDtypes = "f32,bf16";
constexpr const char* kMasks = "none,causal";
constexpr int kRepetitions = 5;
// Larger than the difference between two runs of the same program on a quiet machine.
constexpr double kTolerance = 0.1;
constexpr int64_t kMostRepetitions = 1'000'000;
// Limits the product of long lists.
constexpr size_t kMostCases = 1'000;

constexpr std::pair<const char*, BenchFormat> kFormats[] = {{"md", BenchFormat::md},
                                                            {"json", BenchFormat::json},
                                                            {"jsonl", BenchFormat::jsonl},
                                                            {"csv", BenchFormat::csv}};

// The parts of "causal,window(4,0),none": commas within brackets separate nothing.
std::vector<std::string> values_of(const std::string& option, const std::string& list) {
  std::vector<std::string> values(1);
  int depth = 0;
  for (const char c : list) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c == ',' && depth == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  for (const std::string& value : values)
    if (value.empty())
      throw usage_error(option + ": expected values with commas between them, got '" + list + "'");
  return values;
}

// Whole numbers from 1, which are lengths of a problem.
std::vector<std::string> lengths_of(const std::string& option, const std::string& list) {
  std::vector<std::string> values = values_of(option, list);
  for (std::string& value : values) {
    const int64_t number = parse_integer(option, value);
    if (number < 1) throw usage_error(option + ": expected numbers from 1, got '" + value + "'");
    value = std::to_string(number);
  }
  return values;
}

// "8", or "8/2": of the query, and of key and value.
std::vector<std::string> heads_of(const std::string& list) {
  std::vector<std::string> values = values_of("--heads", list);
  for (const std::string& value : values) {
    const size_t slash = std::min(value.find('/'), value.size());
    lengths_of("--heads", value.substr(0, slash));
    if (slash < value.size()) lengths_of("--heads", value.substr(slash + 1));
  }
  return values;
}

std::vector<int> threads_of(const BenchArguments& a) {
  std::vector<int> threads;
  for (const std::string& value : lengths_of("--threads", a.threads.empty() ? "1" : a.threads)) {
    const int64_t number = parse_integer("--threads", value);
    if (number > kMostThreads)
      throw usage_error("--threads: expected at most " + std::to_string(kMostThreads) + ", got " +
                        value);
    threads.push_back(static_cast<int>(number));
  }
  return threads;
}

// Appends each value to each of the texts so far.
std::vector<std::string> combined(const std::vector<std::string>& texts,
                                  const std::vector<std::string>& values, const std::string& before,
                                  const std::string& left_out = "") {
  std::vector<std::string> all;
  if (texts.size() * values.size() > kMostCases)
    throw usage_error("the lists make more than " + std::to_string(kMostCases) + " problems");
  for (const std::string& text : texts)
    for (const std::string& value : values)
      all.push_back(value == left_out ? text : text + before + value);
  return all;
}

std::vector<std::string> descriptors_of_lists(const BenchArguments& a) {
  const auto given = [](const std::string& list, const char* otherwise) {
    return list.empty() ? std::string(otherwise) : list;
  };
  std::vector<std::string> texts = {""};
  if (!a.batch.empty()) texts = combined(texts, lengths_of("--batch", a.batch), "b");
  texts = combined(texts, heads_of(given(a.heads, kHeads)), "h");
  const std::vector<std::string> q = lengths_of("--q-len", given(a.q_len, kLengths));
  if (a.k_len.empty()) {  // as many keys as queries
    std::vector<std::string> squares;
    for (const std::string& n : q) squares.push_back(n + "k" + n);
    texts = combined(texts, squares, "q");
  } else {
    texts = combined(combined(texts, q, "q"), lengths_of("--k-len", a.k_len), "k");
  }
  texts = combined(texts, lengths_of("--head-dim", given(a.head_dim, kHeadDim)), "d");
  if (!a.value_dim.empty()) texts = combined(texts, lengths_of("--value-dim", a.value_dim), "v");
  const std::vector<std::string> dtypes = values_of("--dtype", given(a.dtype, kDtypes));
  const std::vector<std::string> known = float_words();
  for (const std::string& dtype : dtypes) {
    if (std::find(known.begin(), known.end(), dtype) == known.end())
      throw usage_error("--dtype: expected f32, bf16, f16 or f64, got '" + dtype + "'");
  }
  texts = combined(texts, dtypes, ":");
  texts = combined(texts, values_of("--mask", given(a.mask, kMasks)), ":mask=", "none");
  if (a.method.empty()) return texts;
  return combined(texts, values_of("--method", a.method), ":method=", "none");
}

bool has_lists(const BenchArguments& a) {
  const std::string* const lists[] = {&a.batch,     &a.heads, &a.q_len, &a.k_len, &a.head_dim,
                                      &a.value_dim, &a.dtype, &a.mask,  &a.method};
  return std::any_of(std::begin(lists), std::end(lists),
                     [](const std::string* list) { return !list->empty(); });
}

}  // namespace

std::string BenchCase::name() const {
  const std::string text = to_string(problem);
  return threads == 1 ? text : text + " x " + std::to_string(threads) + " threads";
}

void add_bench_options(CLI::App& app, BenchArguments& a) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* group,
                        const char* doc) {
    return app.add_option(name, value, doc)->type_name(type)->group(group);
  };
  app.add_option("DESCRIPTOR", a.descriptors,
                 "problems of one line, as for 'rapt check', instead of lists")
      ->type_name("");
  text("--q-len", a.q_len, "LIST", "Problems", "queries (default 1024,4096)");
  text("--k-len", a.k_len, "LIST", "Problems", "keys (default: as many as queries)");
  text("--head-dim", a.head_dim, "LIST", "Problems", "numbers per query and key (default 64)");
  text("--value-dim", a.value_dim, "LIST", "Problems", "numbers per value (default: head-dim)");
  text("--heads", a.heads, "LIST", "Problems", "heads, or heads/key heads: 8/2 (default 2)");
  text("--batch", a.batch, "LIST", "Problems", "batches (default: no such dimension)");
  offer(text("--dtype", a.dtype, "LIST", "Problems", "f32, bf16, f16, f64 (default f32,bf16)"),
        float_words());
  offer(text("--mask", a.mask, "LIST", "Problems",
             "none, causal, window(255,0), causal&lengths (default none,causal)"),
        {"none", "causal", "lengths"});
  std::vector<std::string> methods = method_words();
  methods.insert(methods.begin(), "none");
  offer(text("--method", a.method, "LIST", "Problems",
             "approximations (rapt list methods), or none: exactly (default none)"),
        methods);
  text("--threads", a.threads, "LIST", "Problems", "threads (default 1)");
  text("--repetitions,-r", a.repetitions, "N", "Measurement", "samples of each (default 5)");
  text("--memory-limit", a.memory_limit, "SIZE", "Measurement",
       "refuse to take more, 512M or 8GiB (default: what is available)");
  std::vector<std::string> formats;
  for (const auto& [name, format] : kFormats) formats.push_back(name);
  offer(text("--format", a.format, "NAME", "Output", "md (default), json, jsonl or csv"), formats);
  app.add_flag("--json", a.json, "as --format json (docs/json.md)")->group("Output");
  text("--compare", a.compare, "FILE", "Output",
       "say how many times as long each takes as in an older result of --format json or jsonl; "
       "without lists its problems are measured");
  text("--tolerance", a.tolerance, "SHARE", "Output",
       "with --compare: by how much a problem may be slower (default 0.1: a tenth)");
  app.footer(
      "A sample is a row of calls that takes a millisecond, or one call that takes longer: CPU "
      "time\n"
      "of the thread, wall time where several work. Its median and the median distance from that\n"
      "are told. GFLOP/s count 2 (head_dim + value_dim) operations for each allowed pair of query\n"
      "and key, and nothing with a method; the peak is that of the multiply-add (bf16: of the dot\n"
      "product), measured before and after. Memory is what a call that allocates adds to what the\n"
      "process holds at most.\n\n"
      "Exit code 1 if a problem is slower than in the older result by more than it may.\n\n"
      "  rapt bench --q-len 512,1024 --head-dim 64,128 --dtype f32,bf16 --mask none,causal\n"
      "  rapt bench --format json > old.json; rapt bench --compare old.json\n"
      "  rapt bench 'h8/2q1k4096d128:bf16' --threads 1,2");
}

bool names_problems(const BenchArguments& a) { return !a.descriptors.empty() || has_lists(a); }

std::vector<BenchCase> bench_cases(const BenchArguments& a) {
  if (!a.descriptors.empty() && has_lists(a))
    throw usage_error("expected descriptors or lists of values, got both");
  const std::vector<int> threads = threads_of(a);
  std::vector<BenchCase> cases;
  std::set<std::string> names;  // of the cases; a case that is named twice is measured once
  for (const std::string& text : a.descriptors.empty() ? descriptors_of_lists(a) : a.descriptors) {
    const check::Descriptor problem = parse_problem(text);
    for (const int count : threads) {
      const BenchCase one{problem, count};
      if (names.insert(one.name()).second) cases.push_back(one);
    }
  }
  return cases;
}

BenchFormat bench_format(const BenchArguments& a) {
  if (a.json && !a.format.empty() && a.format != "json")
    throw usage_error("--json is --format json; expected one of them");
  if (a.json) return BenchFormat::json;
  if (a.format.empty()) return BenchFormat::md;
  std::vector<std::string_view> known;
  for (const auto& [name, format] : kFormats) {
    known.push_back(name);
    if (a.format == name) return format;
  }
  throw usage_error("--format: expected md, json, jsonl or csv, got '" + a.format + "'",
                    did_you_mean(a.format, known));
}

int bench_repetitions(const BenchArguments& a) {
  if (a.repetitions.empty()) return kRepetitions;
  const int64_t n = parse_integer("--repetitions", a.repetitions);
  if (n < 1 || n > kMostRepetitions)
    throw usage_error("--repetitions: expected 1 to " + std::to_string(kMostRepetitions) +
                      ", got " + a.repetitions);
  return static_cast<int>(n);
}

double bench_tolerance(const BenchArguments& a) {
  if (a.tolerance.empty()) return kTolerance;
  if (a.compare.empty()) throw usage_error("--tolerance needs --compare");
  const double share = parse_real("--tolerance", a.tolerance);
  if (share < 0) throw usage_error("--tolerance: expected a share from 0, got " + a.tolerance);
  return share;
}

}  // namespace rapt::cli

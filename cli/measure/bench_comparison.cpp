#include "cli/measure/bench_comparison.h"

#include <algorithm>

#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Failure(Exit::data, "--compare: '" + path + "' " + what,
                "it must be what 'rapt bench --format json' or jsonl wrote");
}

constexpr const char* kSchema = "rapt.bench/1";

}  // namespace

OlderResults::OlderResults(const std::string& path, MemoryBudget& budget) : path_(path) {
  const std::string text = read_text_file("--compare", path, budget);
  // Functions on a document recurse as deeply as the document is nested.
  const nlohmann::json::parser_callback_t shallow = [&](int depth, nlohmann::json::parse_event_t,
                                                        nlohmann::json&) {
    constexpr int kMostDepth = 8;  // a result has 4
    if (depth > kMostDepth) refuse(path, "is not a result of rapt bench: it is nested too deep");
    return true;
  };
  try {
    // One document, or one on each line.
    std::vector<nlohmann::json> documents;
    nlohmann::json whole = nlohmann::json::parse(text, shallow, false);
    if (!whole.is_discarded()) {
      documents.push_back(std::move(whole));
    } else {
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        if (end > begin)
          documents.push_back(nlohmann::json::parse(text.begin() + static_cast<long>(begin),
                                                    text.begin() + static_cast<long>(end),
                                                    shallow));
        begin = end + 1;
      }
    }
    for (const nlohmann::json& document : documents) {
      if (!document.is_object() || !document.contains("schema"))
        refuse(path, "is not a result of rapt bench");
      const std::string schema = document.at("schema");
      if (schema != kSchema)
        refuse(path, "has the schema '" + schema + "', expected '" + kSchema + "'");
      cpu_ = document.at("cpu");
      if (!document.contains("problems")) {
        add(document);
        continue;
      }
      for (const nlohmann::json& problem : document.at("problems")) add(problem);
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(path, std::string("is not a result of rapt bench: ") + error.what());
  }
  if (cases_.empty()) refuse(path, "has no problems");
}

void OlderResults::add(const nlohmann::json& problem) {
  const std::string text = problem.at("descriptor");
  const double median = problem.at("time").at("median_seconds");
  const nlohmann::json& threads = problem.at("threads");
  if (!(median > 0)) refuse(path_, "has a time that is not positive");
  if (!threads.is_number_integer() || threads < 1 || threads > kMostThreads)
    refuse(path_, "has " + threads.dump() + " threads");
  try {
    cases_.push_back({check::parse_descriptor(text), threads.get<int>()});
  } catch (const Error& error) {
    refuse(path_, "has the descriptor '" + text + "': " + error.what());
  }
  medians_.push_back(median);
}

std::optional<OlderTime> OlderResults::of(const BenchResult& result, double tolerance) const {
  const auto found = std::find(cases_.begin(), cases_.end(), result.problem);
  if (found == cases_.end()) return std::nullopt;
  const double median = medians_[static_cast<size_t>(found - cases_.begin())];
  return OlderTime{median, result.median > median * (1 + tolerance)};
}

}  // namespace rapt::cli

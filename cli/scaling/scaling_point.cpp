#include "cli/scaling/scaling_point.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "cli/measure/cpu_model.h"
#include "cli/output/narrate.h"
#include "cli/process/failure.h"
#include "rapt/instruction_sets.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPointSchema = "rapt.scaling-point/1";

// The key of a point among those of one build and machine.
std::string key_of(const std::string& problem, Passes passes) {
  return (passes == Passes::both ? "both " : "forward ") + problem;
}

}  // namespace

std::string chosen_instruction_set() {
  for (const InstructionSet& set : instruction_sets())
    if (set.chosen) return set.name;
  return "";
}

PointsFile::PointsFile(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  std::error_code error;
  if (std::filesystem::exists(path_, error)) {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    if (!in) throw Failure(Exit::io, "--points: cannot read '" + path_ + "'");
    std::string text = all.str();
    const size_t end = text.rfind('\n') + 1;  // 0 without any
    const std::string rest = text.substr(end);
    text.resize(end);
    if (!rest.empty() && end == 0 && rest.find(kPointSchema) == std::string::npos &&
        !std::string("{\"schema\":\"" + std::string(kPointSchema)).starts_with(rest))
      throw Failure(Exit::data, "--points: '" + path_ + "' has no points of rapt plot scaling");
    std::istringstream lines(text);
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) read_line(line, ++number);
    if (!rest.empty()) {
      narrate("'" + path_ + "': the last line is not complete; it is dropped");
      std::filesystem::resize_file(path_, end, error);
    }
  }
  std::ofstream out(path_, std::ios::app);
  if (!out || error) throw Failure(Exit::io, "--points: cannot write to '" + path_ + "'");
}

void PointsFile::read_line(const std::string& line, int64_t number) {
  const Json json = Json::parse(line, nullptr, false);
  try {
    if (json.at("schema") != kPointSchema) throw std::invalid_argument("schema");
    ScalingPoint point{json.at("n"),
                       json.at("seconds"),
                       json.at("mad_seconds"),
                       json.at("growth_bytes"),
                       json.at("wall_seconds"),
                       json.at("flops"),
                       json.at("peak_gflops")};
    const std::string problem = json.at("problem");
    const std::string lengths = fmt::format("q{0}k{0}d", point.n);
    if (point.n < 1 || problem.find(lengths) == std::string::npos) throw std::invalid_argument("n");
    if (!(point.seconds > 0)) throw std::invalid_argument("seconds");
    const Passes passes = json.at("backward").get<bool>() ? Passes::both : Passes::forward;
    if (json.at("build") != build_info() || json.at("cpu") != cpu_model() ||
        json.at("isa") != chosen_instruction_set())
      return;
    points_[key_of(problem, passes)] = point;
  } catch (const std::exception&) {
    throw Failure(Exit::data, fmt::format("--points: line {} of '{}' is no point of rapt plot "
                                          "scaling",
                                          number, path_));
  }
}

const ScalingPoint* PointsFile::find(const BenchCase& one, Passes passes) const {
  const auto found = points_.find(key_of(one.name(), passes));
  return found == points_.end() ? nullptr : &found->second;
}

void PointsFile::add(const BenchCase& one, Passes passes, const ScalingPoint& point) {
  if (path_.empty()) return;
  const Json json{{"schema", kPointSchema},
                  {"build", build_info()},
                  {"cpu", cpu_model()},
                  {"isa", chosen_instruction_set()},
                  {"problem", one.name()},
                  {"backward", passes == Passes::both},
                  {"n", point.n},
                  {"seconds", point.seconds},
                  {"mad_seconds", point.deviation},
                  {"growth_bytes", point.growth},
                  {"wall_seconds", point.wall},
                  {"flops", point.flops},
                  {"peak_gflops", point.peak_gflops}};
  std::ofstream out(path_, std::ios::app | std::ios::binary);
  out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  if (!out) throw Failure(Exit::io, "--points: cannot write to '" + path_ + "'");
}

}  // namespace rapt::cli

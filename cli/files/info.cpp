// rapt info: what is in files of tensors, with statistics.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "cli/commands.h"
#include "cli/files/tensor_stats.h"
#include "cli/input/arguments.h"
#include "cli/input/tensor_input.h"
#include "cli/output/printable.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InfoArguments {
  std::vector<std::string> files;
  std::string npy_v2, memory_limit;
  bool no_stats = false, json = false;
};

// A tensor and its statistics.
struct TensorLine {
  const StoredTensor* tensor;
  std::optional<TensorStats> stats;  // absent: not requested, or of a type that rapt does not read
};

bool is_whole(const StoredTensor& tensor) {
  return tensor.dtype == DType::i64 || tensor.dtype == DType::i32 || tensor.dtype == DType::u8 ||
         tensor.dtype == DType::boolean;
}

std::string dtype_text(const StoredTensor& tensor) {
  return tensor.dtype ? name_of(*tensor.dtype) : printable(tensor.type);
}

// The layout of the elements if it is not plain: "big-endian", "Fortran order", "deflated".
std::string layout_text(const StoredTensor& tensor) {
  std::string text;
  const auto add = [&](bool is, const char* what) {
    if (is) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(tensor.byte_order == std::endian::big, "big-endian");
  add(tensor.fortran_order && tensor.shape.size() > 1, "Fortran order");
  add(tensor.deflated, "deflated");
  return text;
}

using Row = std::array<std::string, 11>;
constexpr size_t kStatsFrom = 4;  // the first column that --no-stats leaves out
constexpr size_t kStatsTo = 10;

Row row_of(const TensorLine& line) {
  const StoredTensor& tensor = *line.tensor;
  Row row{tensor.name.empty() ? "-" : printable(tensor.name), dtype_text(tensor),
          to_string(tensor.shape), bytes_text(static_cast<double>(tensor.bytes))};
  row[10] = layout_text(tensor);
  if (!line.stats) {
    std::fill(row.begin() + kStatsFrom, row.begin() + kStatsTo, "-");
    return row;
  }
  const TensorStats& s = *line.stats;
  const auto number = [&](double value) { return fmt::format("{:.4g}", value); };
  const bool any = s.finite > 0;
  row[4] = !any ? "-" : is_whole(tensor) ? std::to_string(s.whole_min) : number(s.min);
  row[5] = !any ? "-" : is_whole(tensor) ? std::to_string(s.whole_max) : number(s.max);
  row[6] = any ? number(s.mean) : "-";
  row[7] = any ? number(s.std) : "-";
  row[8] = fmt::format("{}/{}", s.nan, s.infinite);
  row[9] = std::to_string(s.zeros);
  return row;
}

// Columns of text to the left, of numbers to the right; the widest cell decides.
std::string table_text(const std::vector<TensorLine>& lines, bool stats) {
  std::vector<Row> rows = {
      {"name", "dtype", "shape", "bytes", "min", "max", "mean", "std", "NaN/Inf", "zeros", ""}};
  for (const TensorLine& line : lines) rows.push_back(row_of(line));
  std::array<size_t, 11> widths = {};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) {
      if (!stats && c >= kStatsFrom && c < kStatsTo) continue;
      line += c < 3 || c == 10 ? fmt::format(" {:<{}} ", row[c], widths[c])
                               : fmt::format(" {:>{}} ", row[c], widths[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string file_text(const std::string& path, const TensorFile& file,
                      const std::vector<TensorLine>& lines, bool stats) {
  int64_t bytes = 0;
  for (const TensorLine& line : lines) bytes += line.tensor->bytes;
  const std::string name = path == "-" ? "standard input" : printable(path);
  std::string text =
      fmt::format("{}: {}, {} {}, {}\n", name, file.format, lines.size(),
                  lines.size() == 1 ? "tensor" : "tensors", bytes_text(static_cast<double>(bytes)));
  for (const auto& [key, value] : file.metadata)
    text += fmt::format("  {} = {}\n", printable(key), printable(value));
  if (!lines.empty()) text += table_text(lines, stats);
  return text;
}

Json stats_json(const TensorLine& line) {
  if (!line.stats) return {};
  const TensorStats& s = *line.stats;
  const bool whole = is_whole(*line.tensor), any = s.finite > 0;
  const auto known = [&](double value) { return any ? json_number(value) : Json(); };
  Json json;
  json["count"] = s.count;
  json["finite"] = s.finite;
  json["nan"] = s.nan;
  json["infinite"] = s.infinite;
  json["zeros"] = s.zeros;
  json["min"] = whole && any ? Json(s.whole_min) : known(s.min);
  json["max"] = whole && any ? Json(s.whole_max) : known(s.max);
  json["mean"] = known(s.mean);
  json["std"] = known(s.std);
  return json;
}

Json tensor_json(const TensorLine& line) {
  const StoredTensor& tensor = *line.tensor;
  Json json;
  json["name"] = tensor.name.empty() ? Json() : Json(tensor.name);
  json["dtype"] = tensor.dtype ? Json(name_of(*tensor.dtype)) : Json();
  json["type"] = tensor.type;
  json["shape"] = tensor.shape;
  json["bytes"] = tensor.bytes;
  json["byte_order"] = tensor.byte_order == std::endian::big ? "big" : "little";
  json["fortran_order"] = tensor.fortran_order;
  json["deflated"] = tensor.deflated;
  json["statistics"] = stats_json(line);
  return json;
}

Json file_json(const std::string& path, const TensorFile& file,
               const std::vector<TensorLine>& lines) {
  Json json;
  json["path"] = path;
  json["format"] = file.format;
  json["metadata"] = Json::object();
  for (const auto& [key, value] : file.metadata) json["metadata"][key] = value;
  json["tensors"] = Json::array();
  for (const TensorLine& line : lines) json["tensors"].push_back(tensor_json(line));
  return json;
}

void check_info(const InfoArguments& a) {
  if (a.files.empty()) throw usage_error("expected files, such as F.npy or F.npz:NAME");
  parse_memory_limit(a.memory_limit);
  parse_npy_v2(a.npy_v2);
}

void run_info(const InfoArguments& a) {
  const int64_t limit = parse_memory_limit(a.memory_limit);
  Json files = Json::array();
  for (const std::string& text : a.files) {
    MemoryBudget budget(limit);  // each file's memory is given back
    TensorInput input(budget, parse_npy_v2(a.npy_v2));
    const TensorAddress address = address_of(text);
    std::vector<TensorLine> lines;
    for (const StoredTensor* tensor : input.find("", address)) {
      TensorLine& line = lines.emplace_back(TensorLine{tensor, {}});
      if (a.no_stats || !tensor->dtype) continue;
      stop_if_interrupted();
      MemoryBudget for_one(budget.left());
      for_one.take(memory_of_stats(*tensor), text);
      ProgressLine progress(-1);
      line.stats = stats_of(*tensor, progress.hook());
    }
    const TensorFile& file = input.open("", address.path);
    if (a.json) {
      files.push_back(file_json(address.path, file, lines));
    } else {
      std::fputs(file_text(address.path, file, lines, !a.no_stats).c_str(), stdout);
    }
  }
  if (!a.json) return;
  Json document;
  document["schema"] = "rapt.info/1";
  document["build"] = build_info();
  document["files"] = std::move(files);
  print_json(document);
}

}  // namespace

Command add_info(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("info", "what is in files of tensors; 'rapt FILE' does it too");
  const auto a = arguments_of<InfoArguments>(*app);
  app->add_option("FILE", a->files,
                  "F.npy, F.npz, F.safetensors, F.npz:NAME, ...; - is standard input")
      ->type_name("");
  app->add_flag("--no-stats", a->no_stats,
                "only what the files say of themselves; nothing is read");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->add_option("--memory-limit", a->memory_limit,
                  "refuse to take more, 512M or 8GiB (default: what is available)")
      ->type_name("SIZE");
  add_npy_v2_option(*app, a->npy_v2);
  app->footer(
      "min, max, mean and std are those of the finite elements. A tensor of an element type that\n"
      "rapt does not compute with is listed without statistics.\n\n"
      "  rapt model.safetensors\n"
      "  rapt info q.npy k.npy v.npy --json");
  return {app, [a] { check_info(*a); }, [a] { run_info(*a); }};
}

}  // namespace rapt::cli

// rapt mask: draws which query may attend to which key, and counts the tiles that a call computes
// and skips.
//
// Cells of a large mask stand for blocks of pairs and show the share of them that is allowed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/input/mask_input.h"
#include "cli/mask/mask_shares.h"
#include "cli/output/picture.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/attention.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

constexpr int64_t kLongest = int64_t{1} << 20;       // counting its tiles takes seconds
constexpr int64_t kMostMaskRows = int64_t{1} << 24;  // of all heads: the same
constexpr int64_t kPlannedHeadDim = 64;              // tile sizes follow from it and from f32
constexpr int64_t kImageCells = 512;                 // per side: a pixel or two each
constexpr int64_t kJsonCells = 64;                   // per side

struct MaskArguments {
  std::string spec, q_len = "32", k_len, leading, head, npy_v2;
  PictureArguments picture;
  bool tile = false, json = false, force = false;
};

// The drawn problem: one mask over a problem without tensors.
struct MaskedProblem {
  std::string spec;
  std::vector<int64_t> leading, head;  // dimensions, and the index of the drawn head
  int64_t q_len = 0, k_len = 0;
  Plan plan;
  bool by_tile = false;

  int64_t pairs() const {  // of all heads
    return std::accumulate(leading.begin(), leading.end(), q_len * k_len, std::multiplies<>());
  }
};

int64_t parse_length(const std::string& option, const std::string& text) {
  const int64_t length = parse_integer(option, text);
  if (length < 1 || length > kLongest)
    throw usage_error(fmt::format("{}: expected 1 to {}, got {}", option, kLongest, length));
  return length;
}

std::string list_text(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

void read_leading(const MaskArguments& a, MaskedProblem& problem) {
  if (!a.leading.empty()) problem.leading = parse_integers("--leading", a.leading);
  for (const int64_t length : problem.leading)
    if (length < 1 || length > kLongest)
      throw usage_error(fmt::format("--leading {}: expected 1 to {} each", a.leading, kLongest));
  int64_t rows = problem.q_len;
  for (const int64_t length : problem.leading) {
    if (rows > kMostMaskRows / length)
      throw usage_error(fmt::format("--leading {}: expected at most {} queries of all heads",
                                    a.leading, kMostMaskRows));
    rows *= length;
  }
  problem.head.assign(problem.leading.size(), 0);
  if (a.head.empty()) return;
  problem.head = parse_integers("--head", a.head);
  bool fits = problem.head.size() == problem.leading.size();
  for (size_t i = 0; fits && i < problem.head.size(); ++i)
    fits = problem.head[i] >= 0 && problem.head[i] < problem.leading[i];
  if (!fits)
    throw usage_error(fmt::format("--head {}: expected an index into --leading {}", a.head,
                                  a.leading.empty() ? "(none given)" : a.leading));
}

Plan plan_of(const MaskedProblem& problem, const Mask& mask) {
  const auto without_numbers = [&](int64_t length) {
    std::vector<int64_t> shape = problem.leading;
    shape.insert(shape.end(), {length, kPlannedHeadDim});
    return TensorView(nullptr, DType::f32, shape, true);
  };
  AttentionOptions options;
  options.masks = {&mask};
  const TensorView key = without_numbers(problem.k_len);
  try {
    return plan(without_numbers(problem.q_len), key, key, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::shape) throw;
    throw Failure(Exit::data, error.what(),
                  "--q-len, --k-len and --leading say what the mask's tensors have to fit");
  }
}

// The smallest power of two times `unit` for which there are at most `most` cells.
int64_t block_of(int64_t length, int64_t unit, int64_t most) {
  while ((length + unit - 1) / unit > most) unit *= 2;
  return unit;
}

Grid grid_of(const MaskedProblem& problem, int64_t rows, int64_t columns) {
  const Plan& plan = problem.plan;
  return {.queries = block_of(problem.q_len, problem.by_tile ? plan.tile_queries : 1, rows),
          .keys = block_of(problem.k_len, problem.by_tile ? plan.block_keys : 1, columns)};
}

Grid grid_for(const MaskedProblem& problem, Canvas canvas, const viz::TerminalStyle& style) {
  if (canvas == Canvas::file) return grid_of(problem, kImageCells, kImageCells);
  // If it fits, a pair has two characters and each row a line, as in heatmaps of few cells.
  constexpr int64_t kLines = 40, kRowLabels = 8;
  if (!problem.by_tile && problem.q_len <= kLines && 2 * problem.k_len <= style.width - kRowLabels)
    return {};
  const int64_t columns = style.width * 3 / 4 - 2;  // labels take up to a quarter
  const bool lines_are_rows = style.color == viz::TerminalColor::ascii;
  return grid_of(problem, lines_are_rows ? columns / 2 : columns, columns);
}

viz::Heatmap heatmap_of(const MaskedProblem& problem, const Shares& shares) {
  viz::Heatmap map;
  map.rows = shares.rows;
  map.columns = shares.columns;
  map.values = shares.values;
  for (const float share : shares.values) map.allowed.push_back(share > 0);
  map.range = viz::ValueRange{0, 1};
  map.title = problem.spec;
  if (!problem.leading.empty()) map.title += ", head " + list_text(problem.head);
  const Grid& cell = shares.cell;
  const bool single_pairs = cell.queries == 1 && cell.keys == 1;
  if (single_pairs) {
    map.annotate = viz::Annotate::never;  // a cell says yes or no
    map.legend = viz::Legend::allowed;
  } else {
    map.title +=
        fmt::format(": share of allowed pairs in cells of {} x {}", cell.queries, cell.keys);
    map.positions_per_row = static_cast<double>(cell.queries);
    map.positions_per_column = static_cast<double>(cell.keys);
  }
  return map;
}

double percent_allowed(const MaskedProblem& problem) {
  return 100 * static_cast<double>(problem.plan.allowed_scores) /
         static_cast<double>(problem.pairs());
}

void print_text(const MaskedProblem& problem) {
  const Plan& plan = problem.plan;
  fmt::print("mask      {}\n", problem.spec);
  fmt::print("length    {} queries, {} keys{}\n", problem.q_len, problem.k_len,
             problem.leading.empty() ? "" : ", leading dimensions " + list_text(problem.leading));
  fmt::print("pairs     {} of {} allowed, {:.2f} %\n", plan.allowed_scores, problem.pairs(),
             percent_allowed(problem));
  fmt::print("tiles     {} whole, {} cut by the mask, {} skipped\n", plan.tiles_computed,
             plan.tiles_partial, plan.tiles_skipped);
  fmt::print("kernel    {}, {}, {} queries x {} keys at a time (f32, head_dim {})\n", plan.kernel,
             plan.isa, plan.tile_queries, plan.block_keys, kPlannedHeadDim);
}

void print_document(const MaskedProblem& problem, const Shares& shares) {
  using Json = nlohmann::ordered_json;
  Json document;
  document["schema"] = "rapt.mask/1";
  document["build"] = build_info();
  document["mask"] = problem.spec;
  document["leading"] = problem.leading;
  document["q_len"] = problem.q_len;
  document["k_len"] = problem.k_len;
  document["pairs"] = problem.pairs();
  const Plan& plan = problem.plan;
  document["plan"] = Json{{"isa", plan.isa},
                          {"kernel", plan.kernel},
                          {"tile_queries", plan.tile_queries},
                          {"block_keys", plan.block_keys},
                          {"tiles_computed", plan.tiles_computed},
                          {"tiles_partial", plan.tiles_partial},
                          {"tiles_skipped", plan.tiles_skipped},
                          {"allowed_scores", plan.allowed_scores}};
  document["head"] = problem.head;
  document["cell"] = Json{{"queries", shares.cell.queries}, {"keys", shares.cell.keys}};
  Json& rows = document["shares"] = Json::array();
  for (int64_t row = 0; row < shares.rows; ++row) {
    const float* const begin = shares.values.data() + row * shares.columns;
    rows.push_back(std::vector<float>(begin, begin + shares.columns));
  }
  print_json(document);
}

// The part of the problem that options determine.
MaskedProblem problem_of(const MaskArguments& a) {
  MaskedProblem problem;
  problem.spec = a.spec;
  problem.q_len = parse_length("--q-len", a.q_len);
  problem.k_len = a.k_len.empty() ? problem.q_len : parse_length("--k-len", a.k_len);
  problem.by_tile = a.tile;
  read_leading(a, problem);
  return problem;
}

void check_mask(const MaskArguments& a) {
  if (a.spec.empty()) throw usage_error("expected a mask, such as \"causal|prefix(8)\"");
  check_picture_options(a.picture);
  const std::vector<std::string>& targets = a.picture.targets;
  if (a.json && std::find(targets.begin(), targets.end(), "-") != targets.end())
    throw usage_error("standard output can take one of --json and --heatmap -");
  problem_of(a);
  parse_npy_v2(a.npy_v2);
  check_masks({a.spec});
}

void run_mask(const MaskArguments& a) {
  PictureArguments wanted = a.picture;
  if (wanted.targets.empty() && !a.json) wanted.targets = {"-"};
  Pictures pictures(wanted, a.force ? Overwrite::yes : Overwrite::no);
  MaskedProblem problem = problem_of(a);
  MemoryBudget budget(-1);
  TensorInput files(budget, parse_npy_v2(a.npy_v2));
  const MaskInput input = read_masks({a.spec}, files);
  if (input.masks.empty())
    throw Failure(Exit::data, a.spec + " holds floats: a bias, no mask",
                  "convert it with .astype(bool) for a mask (true = may attend)");
  const Mask& mask = *input.masks.front();
  problem.plan = plan_of(problem, mask);  // checks that the mask fits the problem

  const Head head{problem.head.data(), static_cast<int>(problem.head.size()), problem.q_len,
                  problem.k_len};
  pictures.draw([&](Canvas canvas) {
    const Grid cell = grid_for(problem, canvas, pictures.terminal());
    return heatmap_of(problem, allowed_shares(mask, head, cell));
  });
  if (a.json) {
    print_document(problem, allowed_shares(mask, head, grid_of(problem, kJsonCells, kJsonCells)));
  } else {
    print_text(problem);
  }
  stop_if_interrupted();
  pictures.commit();
}

}  // namespace

Command add_mask(CLI::App& root) {
  CLI::App* app = root.add_subcommand("mask", "draw a mask and count its tiles");
  const auto a = arguments_of<MaskArguments>(*app);
  app->add_option(
      "SPEC", a->spec,
      "as --mask of 'rapt attend': causal, window:4,0, \"causal|prefix(8)\", file:M.npy");
  const auto text = [&](const char* name, std::string& value, const char* type, const char* doc) {
    app->add_option(name, value, doc)->type_name(type);
  };
  text("--q-len", a->q_len, "N", "queries (default 32)");
  text("--k-len", a->k_len, "N", "keys (default: as many as queries)");
  text("--leading", a->leading, "B,H", "leading dimensions, for masks with tensors per batch");
  text("--head", a->head, "B,H", "which of them is drawn (default: the first)");
  app->add_flag("--tile", a->tile, "a cell per tile of the computation");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->add_flag("--force,-f", a->force, "overwrite existing files");
  add_npy_v2_option(*app, a->npy_v2);
  add_picture_options(*app, a->picture, "the mask");
  offer(app->get_option("SPEC"), mask_words());
  app->footer(
      "Without --heatmap and --json the mask is drawn into the terminal. Counts are for f32 and\n"
      "head_dim 64, over all leading dimensions.\n\n"
      "  rapt mask \"window(15,0) | prefix(4)\" --q-len 48");
  return {app, [a] { check_mask(*a); }, [a] { run_mask(*a); }};
}

}  // namespace rapt::cli

#include "cli/train/examples/train_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/train/examples/copy.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

// What the tutorial's program, which draws a new embedding in each epoch, prints with PyTorch 2.13
// after torch.manual_seed(1): the losses of epochs 0, 20, 40, 60 and 80.
constexpr double kTutorialLosses[] = {1.2627, 0.8478, 0.7062, 0.6552, 0.3473};
constexpr size_t kTutorialEpochs = 20;  // from one printed epoch to the next

// A run that has losses alone.
Json run_of(const char* name, const std::vector<double>& losses) {
  return Json{{"name", name}, {"losses", losses}, {"falls", nullptr}, {"target_rms", nullptr}};
}

Json json_of(const char* name, const TinyRun& run) {
  return Json{{"name", name},
              {"losses", run.losses},
              {"falls", run.falls()},
              {"target_rms", Json::array({run.target_rms_before, run.target_rms_after})}};
}

Json head_of(const char* example, uint64_t seed, bool ok, double seconds) {
  Json document;
  document["schema"] = "rapt.train_example/1";
  document["build"] = build_info();
  document["example"] = example;
  document["seed"] = seed;
  document["ok"] = ok;
  document["wall_seconds"] = seconds;
  return document;
}

}  // namespace

std::string report_text(const TinyReport& r) {
  std::string text = fmt::format("{:<7}{:>14}{:>14}{:>14}{:>14}\n", "epoch", "frozen", "trained",
                                 "redrawn", "in PyTorch");
  for (size_t i = 0; i < std::size(kTutorialLosses); ++i) {
    const size_t epoch = i * kTutorialEpochs;
    text +=
        fmt::format("{:<7}{:>14.6f}{:>14.6f}{:>14.6f}{:>14.4f}\n", epoch, r.frozen.losses[epoch],
                    r.trained.losses[epoch], r.redrawn.losses[epoch], kTutorialLosses[i]);
  }
  text +=
      fmt::format("{:<7}{:>12.1f} x{:>12.1f} x{:>12.1f} x{:>12.1f} x\n", "falls", r.frozen.falls(),
                  r.trained.falls(), r.redrawn.falls(), kTutorialLosses[0] / kTutorialLosses[4]);
  const auto target = [](const TinyRun& run) {
    return fmt::format("{:.2f} -> {:.2f}", run.target_rms_before, run.target_rms_after);
  };
  return text + fmt::format("{:<7}{:>14}{:>14}{:>14}\n", "target", target(r.frozen),
                            target(r.trained), target(r.redrawn));
}

bool CopyReport::ok() const { return copied == kCopySequences; }

std::string copy_line(int64_t step, double loss) {
  return fmt::format("{:>5}{:>11.6f}\n", step, loss);
}

std::string report_text(const CopyReport& report) {
  return fmt::format("{} of {} unseen sequences of {} symbols are copied\n", report.copied,
                     kCopySequences, kCopiedSymbols);
}

double ReformerReport::right() const {
  return std::ranges::find(accuracy, kGoalRounds, &ReformerAccuracy::rounds)->right;
}

std::string report_text(const ReformerReport& report) {
  std::string text = "symbols of unseen sequences that are right\n";
  for (const ReformerAccuracy& test : report.accuracy)
    text += fmt::format("{:>6}{:>9.1f} %\n",
                        test.rounds > 0 ? fmt::format("lsh {}", test.rounds) : "exact",
                        100 * test.right);
  return text;
}

std::string missed_goal(const TinyReport& r) {
  return fmt::format("the loss falls {:.1f} and {:.1f} times; expected {} times", r.frozen.falls(),
                     r.trained.falls(), TinyReport::kWantedFall);
}

std::string missed_goal(const CopyReport& report) {
  return fmt::format("{} of {} sequences are copied; expected all", report.copied, kCopySequences);
}

std::string missed_goal(const ReformerReport& report) {
  return fmt::format("with {} rounds {:.1f} % of the symbols are right; expected {:.0f} %",
                     ReformerReport::kGoalRounds, 100 * report.right(),
                     100 * ReformerReport::kWantedRight);
}

Json train_document(const TinyReport& r, uint64_t seed, double seconds) {
  Json document = head_of("tiny", seed, r.ok(), seconds);
  document["runs"] = Json::array(
      {json_of("frozen", r.frozen), json_of("trained", r.trained), json_of("redrawn", r.redrawn)});
  document["copied"] = document["sequences"] = document["accuracy"] = nullptr;
  return document;
}

Json train_document(const CopyReport& r, uint64_t seed, double seconds) {
  Json document = head_of("copy", seed, r.ok(), seconds);
  document["runs"] = Json::array({run_of("copy", r.losses)});
  document["copied"] = r.copied;
  document["sequences"] = kCopySequences;
  document["accuracy"] = nullptr;
  return document;
}

Json train_document(const ReformerReport& r, uint64_t seed, double seconds) {
  Json document = head_of("reformer-copy", seed, r.ok(), seconds);
  document["runs"] = Json::array({run_of("reformer-copy", r.losses)});
  document["copied"] = document["sequences"] = nullptr;
  document["accuracy"] = Json::array();
  for (const ReformerAccuracy& test : r.accuracy)
    document["accuracy"].push_back(
        Json{{"rounds", test.rounds > 0 ? Json(test.rounds) : Json()}, {"right", test.right}});
  return document;
}

}  // namespace rapt::cli

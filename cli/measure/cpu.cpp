// rapt cpu: the CPU's instruction sets, which of them rapt uses, and measured peak rates.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/commands.h"
#include "cli/measure/cpu_model.h"
#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "rapt/instruction_sets.h"
#include "rapt/thread_pool.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

std::string reason() {
  const char* const allowed = std::getenv("RAPT_ISA");
  return allowed && *allowed ? "the highest that RAPT_ISA=" + std::string(allowed) + " allows"
                             : "the highest that this machine has; RAPT_ISA is not set";
}

bool threads_forced() {
  const char* const wanted = std::getenv("RAPT_THREADS");
  return wanted && *wanted;
}

std::string cache_text(long bytes) {
  return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "unknown";
}

// "used: 1.96 times the FMA's operations", and who decided.
std::string bf16_text(const Bf16Dot& dot) {
  if (!dot.available) return "not on this machine, or not with the chosen set; bf16 by FMA";
  return fmt::format("{}: {:.2f} times the operations of FMA; {}",
                     dot.used ? "used for bf16" : "not used", dot.speed,
                     dot.forced ? "RAPT_BF16 decided" : "RAPT_BF16 is not set");
}

// "chosen: the highest that this machine has", "not on this machine: the operating system refuses".
std::string text_of(const InstructionSet& set) {
  const std::string text = set.chosen      ? "chosen: " + reason()
                           : set.available ? "available"
                                           : "not on this machine";
  return *set.note ? text + (set.chosen ? "; " : ": ") + set.note : text;
}

void print_text() {
  const std::string model = cpu_model();
  fmt::print("cpu           {}\n", model.empty() ? "unknown" : model);
  const auto sets = instruction_sets();
  for (const InstructionSet& set : sets)
    fmt::print("{:<13} {:<12} {}\n", &set == sets.data() ? "sets" : "", set.name, text_of(set));
  fmt::print("bf16 dot      {}\n", bf16_text(bf16_dot()));
  fmt::print("threads       {} unless --threads says otherwise; RAPT_THREADS {}\n",
             default_threads(), threads_forced() ? "decided" : "is not set");
  const CacheSizes caches = cache_sizes();
  fmt::print("caches        L1 data {}, L2 {}, L3 {}\n", cache_text(caches.l1_data),
             cache_text(caches.l2), cache_text(caches.l3));
  std::fflush(stdout);  // the measurement takes a moment
  const MachinePeak peak = measure_peak();
  fmt::print("f32 peak      {:.1f} GFLOP/s, one thread, fused multiply-adds\n", peak.fma_gflops);
  if (const double tiles = measure_tile_gflops(); tiles > 0)
    fmt::print("tile peak     {:.1f} GFLOP/s, one thread, products of bf16\n", tiles);
  fmt::print("clock         {:.2f} GHz right after that\n", peak.clock_ghz);
  fmt::print("read          {:.1f} GB/s from memory, one thread\n", peak.read_gb_per_s);
}

void print_document() {
  using Json = nlohmann::ordered_json;
  Json document;
  document["schema"] = "rapt.cpu/1";
  document["build"] = build_info();
  document["model"] = cpu_model();
  document["instruction_sets"] = Json::array();
  for (const InstructionSet& set : instruction_sets()) {
    document["instruction_sets"].push_back(Json{{"name", set.name},
                                                {"available", set.available},
                                                {"chosen", set.chosen},
                                                {"note", set.note}});
  }
  document["reason"] = reason();
  const Bf16Dot& dot = bf16_dot();
  document["bf16_dot"] = Json{{"available", dot.available},
                              {"used", dot.used},
                              {"forced", dot.forced},
                              {"speed", dot.available ? Json(dot.speed) : Json()}};
  document["threads"] = default_threads();
  const CacheSizes caches = cache_sizes();
  const auto bytes = [](long size) { return size > 0 ? Json(size) : Json(); };
  document["cache_bytes"] =
      Json{{"l1_data", bytes(caches.l1_data)}, {"l2", bytes(caches.l2)}, {"l3", bytes(caches.l3)}};
  const MachinePeak peak = measure_peak();
  const double tiles = measure_tile_gflops();
  document["peak"] = Json{{"fma_gflops", peak.fma_gflops},
                          {"tile_gflops", tiles > 0 ? Json(tiles) : Json()},
                          {"clock_ghz", peak.clock_ghz},
                          {"read_gb_per_s", peak.read_gb_per_s}};
  print_json(document);
}

}  // namespace

Command add_cpu(CLI::App& root) {
  CLI::App* app = root.add_subcommand("cpu", "instruction sets, caches, measured peak");
  const auto json = arguments_of<bool>(*app);
  app->add_flag("--json", *json, "the same for programs (docs/json.md)");
  return {app, [] {},
          [json] {
            if (*json) {
              print_document();
            } else {
              print_text();
            }
          }};
}

}  // namespace rapt::cli

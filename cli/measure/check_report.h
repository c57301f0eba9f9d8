#pragma once
// The report of `rapt check`, as text and as JSON.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check/compare/comparison.h"
#include "rapt/attention.h"

namespace rapt::cli {

struct CheckReport {
  check::Descriptor descriptor;
  check::Sample sample;
  std::optional<check::Sample> gradient_sample;  // absent: no gradients were compared
  check::Comparison comparison;                  // of results, then of gradients
  Plan plan;
  double cpu_seconds = 0;  // of the thread, the median of `calls`
  size_t calls = 0;
  double peak_gflops = 0;  // f32 fused multiply-adds, one thread, measured right after

  // Useful operations a second: 2 (head_dim + value_dim) for each allowed score. -1 if those are
  // not counted.
  double gflops() const;
};

std::string check_text(const CheckReport& report);
nlohmann::ordered_json check_json(const CheckReport& report);
// The document of all problems; schema: docs/json.md.
nlohmann::ordered_json check_document(const std::vector<nlohmann::ordered_json>& problems);

}  // namespace rapt::cli

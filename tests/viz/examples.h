#pragma once
// Heatmaps and charts used by several tests.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "rapt/viz/chart.h"
#include "rapt/viz/heatmap.h"

namespace rapt::viz::test {

inline std::vector<std::string> numbered(const std::string& name, int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(name + " " + std::to_string(i));
  return labels;
}

// The worked example with two tokens.
inline Heatmap two_tokens() {
  return {.rows = 2, .columns = 2, .values = {0.4787f, 0.5213f, 0.4474f, 0.5526f}};
}

// Four tokens in the style of statistics packages: Blues, two decimals, "Key 0" and "Query 0".
inline Heatmap four_tokens() {
  return {.rows = 4,
          .columns = 4,
          .values = {0.1813f, 0.3056f, 0.3317f, 0.1814f,  //
                     0.2500f, 0.1250f, 0.5000f, 0.1250f,  //
                     0.0312f, 0.9062f, 0.0313f, 0.0313f,  //
                     0.2106f, 0.2894f, 0.1947f, 0.3053f},
          .row_labels = numbered("Query", 4),
          .column_labels = numbered("Key", 4),
          .title = "Attention weights"};
}

// The same map with three colour stops and four decimals.
inline Heatmap four_tokens_in_three_stops() {
  Heatmap map = four_tokens();
  map.colors = color_map("tutorial");
  map.decimals = 4;
  return map;
}

// Deterministic weights whose rows sum to one; with `causal`, later keys are masked.
enum class Mask { none, causal };
inline Heatmap weights(int64_t rows, int64_t columns, Mask mask) {
  Heatmap map{.rows = rows, .columns = columns};
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<double> row;
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const bool allowed = mask == Mask::none || j <= i;
      row.push_back(allowed ? 1 + static_cast<double>((i * 7 + j * 13) % 11) : 0);
      sum += row.back();
      if (mask == Mask::causal) map.allowed.push_back(allowed);
    }
    for (double w : row) map.values.push_back(static_cast<float>(w / sum));
  }
  return map;
}

// An attended pair of weight zero, masked cells, NaN and infinity.
inline Heatmap causal_with_faults() {
  Heatmap map{.rows = 4,
              .columns = 4,
              .values = {1, 0, 0, 0, 0, 1, 0, 0, 0.25f, 0.25f, 0.5f, 0, 0.1f, 0.2f, 0.3f, 0.4f},
              .allowed = {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1},
              .title = "Causal"};
  map.values[9] = std::numeric_limits<float>::quiet_NaN();
  map.values[14] = std::numeric_limits<float>::infinity();
  map.values[1] = std::numeric_limits<float>::quiet_NaN();  // masked: must not appear
  return map;
}

// Labels with characters that break layouts or escape into markup.
inline Heatmap hostile_labels() {
  Heatmap map = weights(4, 5, Mask::none);
  map.title = "</title><script>alert('x')</script> & \"quotes\" \x1b[31m";
  map.x_label = "Keys\x1b]0;title\x07";
  map.row_labels = {"<b>&amp;\"x\"</b>", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
                    "\xe2\x80\xae"
                    "desrever",
                    std::string(10000, 'W')};
  map.column_labels = {"tab\there\n", "bad \xff\xc0\xaf", "o" + std::string(1, '\0') + "k",
                       "Z\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81", "]]>"};
  return map;
}

// Two curves of different lengths, as training has them.
inline LineChart losses() {
  Series training{.name = "training"};
  for (int step = 10; step <= 400; step += 10) {
    training.x.push_back(step);
    training.y.push_back(1.4 + 300.0 / (100 + step) + 0.05 * (step * 7 % 11 - 5) / 5);
  }
  return {.series = {training,
                     {.name = "held out",
                      .x = {100, 200, 300, 400},
                      .y = {2.95, 2.45, 2.2, 2.1},
                      .dots = true}},
          .title = "Loss",
          .x_axis = {.label = "Updates"},
          .y_axis = {.label = "Loss in nats per token"}};
}

// Times of two methods over lengths, what a formula says, and a limit.
inline LineChart times() {
  LineChart chart{.lines = {{.name = "limit", .y = 2}},
                  .title = "Time against length",
                  .x_axis = {.label = "n", .scale = AxisScale::log2},
                  .y_axis = {.label = "CPU time of a call",
                             .scale = AxisScale::log10,
                             .unit = AxisUnit::seconds},
                  .note = "2 heads, head_dim 64, f32"};
  Series exact{.name = "exact", .dots = true};
  Series window{.name = "window(256,0)", .dots = true};
  Series formula{.name = "n\u00b2", .estimate = true};
  for (double n = 128; n <= 16384; n *= 2) {
    exact.x.push_back(n);
    exact.y.push_back(3e-9 * n * n);
    window.x.push_back(n);
    window.y.push_back(5e-7 * n);
    formula.x.push_back(n);
    formula.y.push_back(2e-9 * n * n);
  }
  chart.series = {exact, window, formula};
  return chart;
}

}  // namespace rapt::viz::test

#include "viz/chart/marker_figure.h"

namespace rapt::viz {
namespace {

// Figures of one area look equally large; a circle of diameter 1 has 0.785.
constexpr double kSquare = 0.44, kDiamond = 0.63, kArm = 0.5, kDiagonalArm = 0.42;
// A triangle around its centroid: half its base, and the distances of base and tip.
constexpr double kHalfBase = 0.66, kToBase = 0.4, kToTip = 0.75;
constexpr double kArmWidth = 0.28;

}  // namespace

const MarkerFigure& marker_figure(MarkerShape shape) {
  static const MarkerFigure kFigures[] = {
      {{{{0, 0}}}, false, 1},
      {{{{-kSquare, -kSquare}, {kSquare, -kSquare}, {kSquare, kSquare}, {-kSquare, kSquare}}},
       true,
       0},
      {{{{0, -kToTip}, {kHalfBase, kToBase}, {-kHalfBase, kToBase}}}, true, 0},
      {{{{0, -kDiamond}, {kDiamond, 0}, {0, kDiamond}, {-kDiamond, 0}}}, true, 0},
      {{{{-kHalfBase, -kToBase}, {kHalfBase, -kToBase}, {0, kToTip}}}, true, 0},
      {{{{-kArm, 0}, {kArm, 0}}, {{0, -kArm}, {0, kArm}}}, false, kArmWidth},
      {{{{-kDiagonalArm, -kDiagonalArm}, {kDiagonalArm, kDiagonalArm}},
        {{-kDiagonalArm, kDiagonalArm}, {kDiagonalArm, -kDiagonalArm}}},
       false,
       kArmWidth}};
  return kFigures[static_cast<size_t>(shape)];
}

}  // namespace rapt::viz

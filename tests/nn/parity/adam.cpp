// 20 steps of torch.optim.Adam or AdamW ("n.decoupled") behind clip_grad_norm_: the gradients of
// step t are "gradient.t.weight", its learning rate is "n.rate.t", and "norms" [20] are the norms
// before clipping. Biases have no weight decay.
#include "rapt/nn/adam.h"

#include "nn/parity/parity.h"
#include "rapt/nn/clip.h"
#include "rapt/nn/linear.h"

namespace parity {
namespace {

template <class Optimiser, class Options>
void step_and_compare(Given& given) {
  using namespace rapt;
  const Tensor weight = given.tensor("p.weight");
  nn::Linear layer = nn::make_linear(weight.dim(1), weight.dim(0), true, given.dtype());
  given.load(layer);
  const std::vector<nn::Parameter*> parameters = nn::parameters_of(layer);
  Options options{.beta1 = given.number("beta1"),
                  .beta2 = given.number("beta2"),
                  .eps = given.number("eps"),
                  .weight_decay = given.number("weight_decay")};
  auto [weights, others] = nn::split_by_rank(nn::named_parameters(layer));
  Optimiser optimiser(std::move(weights), options);
  options.weight_decay = 0;
  optimiser.add_group(std::move(others), options);

  std::vector<double> norms;
  for (int t = 0; t < 20; ++t) {
    const std::string step = std::to_string(t);
    nn::visit(layer, [&](const std::string& name, nn::Parameter& p) {
      p.gradient = given.tensor("gradient." + step + "." + name);
    });
    norms.push_back(nn::clip_gradients(parameters, given.number("max_norm")));
    optimiser.step(given.number("rate." + step));
  }
  Tensor all_norms(given.dtype(), {20});
  nn::load_tensors(std::vector<nn::NamedView>{{"norms", all_norms}},
                   std::vector<nn::NamedView>{{"norms", TensorView(norms.data(), {20})}});
  given.compare("norms", all_norms);
  for (const nn::NamedView& p : nn::state_dict(layer)) given.compare(p.name, p.view);
  for (const nn::NamedView& s : optimiser.state())
    if (s.view.dtype == given.dtype()) given.compare(s.name, s.view);
}

}  // namespace

void adam(Given& given) {
  using namespace rapt::nn;
  if (given.number("decoupled") != 0)
    step_and_compare<AdamW, AdamWOptions>(given);
  else
    step_and_compare<Adam, AdamOptions>(given);
}

}  // namespace parity

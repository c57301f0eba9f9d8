// The options of `rapt attend`. Their names are stable, because scripts of users rely on them.
#include "cli/attend/attend_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/problem/mask_spec.h"
#include "cli/attend/attend_gradients.h"
#include "cli/input/bias_order.h"
#include "cli/input/choices.h"
#include "cli/input/tensor_input.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"

namespace rapt::cli {
namespace {

// Adds the options of one section of --help.
class OptionGroup {
 public:
  OptionGroup(CLI::App& app, const char* name) : app_(app), name_(name) {}

  CLI::Option* text(const char* name, std::string& value, const char* type,
                    const std::string& doc) {
    return app_.add_option(name, value, doc)->type_name(type)->group(name_);
  }
  // An option whose value may be omitted.
  CLI::Option* text_or_none(const char* name, std::string& value, const char* type,
                            const std::string& doc) {
    return text(name, value, type, doc)->expected(0, 1);
  }
  // An option that may be repeated.
  CLI::Option* many(const char* name, std::vector<std::string>& value, const char* type,
                    const std::string& doc) {
    return app_.add_option(name, value, doc)
        ->type_name(type)
        ->group(name_)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  void flag(const char* name, bool& value, const std::string& doc) {
    app_.add_flag(name, value, doc)->group(name_);
  }

 private:
  CLI::App& app_;
  const char* name_;
};

void add_input_options(CLI::App& app, AttendArguments& a) {
  OptionGroup input(app, "Input");
  input.text("--query", a.query, "F",
             "query [..., q_len, d]: F.npy, F.npz:NAME, F.safetensors:NAME; - is standard input");
  input.text("--key", a.key, "F", "key [..., k_len, d]; heads may divide the query's");
  input.text("--value", a.value, "F", "value [..., k_len, d_v]");
  input.text("--text", a.text, "TEXT",
             "instead: query = key = value from a sentence, a file, or @file");
  input.text("--dim", a.dim, "D", "numbers per word of --text (default 128)");
  input.text("--heads", a.heads, "H", "heads that the numbers of --text are dealt to (default 1)");
  offer(input.text("--dtype", a.dtype, "T",
                   "convert the inputs to f32, bf16, f16 or f64 (default: the query's)"),
        float_words());
}

// Options for the steps from dot products to weights.
void add_score_options(CLI::App& app, AttendArguments& a) {
  OptionGroup attention(app, "Attention");
  offer(
      attention.many(
          "--mask", a.masks, "SPEC",
          fmt::format("{} (rapt list masks); tensors are files: lengths:F.npy; file:M.npy (true = "
                      "may attend; floats are a bias); \"causal|prefix(8)\", with ! & | and "
                      "parentheses; repeatable, combined by 'and'",
                      usual_texts(check::leaf_masks()))),
      mask_words());
  attention.text("--bias", a.bias, "F", "added to the scaled scores; -inf excludes");
  offer(attention.text("--bias-order", a.bias_order, "NAME", kBiasOrderDoc), bias_order_words());
  attention.text("--scale", a.scale, "X",
                 "of the dot products (default 1/sqrt(d); 5 times the heads for --text)");
  attention.text(
      "--softcap", a.softcap, "X",
      "keep scores within +-X by X tanh(score / X), before masks and, by default, the bias");
  offer(attention.many("--score", a.scores, "SPEC",
                       fmt::format("what else happens to scores, in this order: {}; tensors are "
                                   "files: head_scale:F.npy (repeatable)",
                                   usual_texts(score_declarations()))),
        score_words());
  offer(attention.text(
            "--normalizer", a.normalizer, "NAME",
            fmt::format("how scores become weights: {}", fmt::join(normalizer_words(), ", "))),
        normalizer_words());
  offer(attention.text("--method", a.method, "SPEC",
                       fmt::format("compute approximately: {} (rapt list methods; default: "
                                   "exactly); tensors that it reads are files",
                                   usual_texts(method_declarations()))),
        method_words());
}

// Row transforms and relative positions.
void add_position_options(CLI::App& app, AttendArguments& a) {
  OptionGroup attention(app, "Attention");
  attention.text_or_none(
      "--rotary", a.rotary, "[SPEC]",
      "turn query and key rows by their positions: theta=500000, interleaved, dims=64, "
      "scaling=yarn, factor=4, ... (rapt list row-changes), joined by commas");
  attention.text_or_none(
      "--cosine", a.cosine, "[EPSILON]",
      "divide query and key rows by their lengths, at least EPSILON (default 1e-12): "
      "scores are cosines times the scale");
  attention.text(
      "--relative", a.relative, "SPEC",
      "rows for each distance of a key, within the products: key_rows=F.npy, query_rows=F, "
      "value_rows=F, content_bias=F, position_bias=F, center=4, ... (rapt list products), joined "
      "by commas");
  attention.text("--query-start", a.query_start, "N",
                 "the position of the first query for --rotary (default 0)");
}

// The call as a whole: packed sequences, dropout, arithmetic.
void add_call_options(CLI::App& app, AttendArguments& a) {
  OptionGroup attention(app, "Attention");
  attention.text("--packed", a.packed, "F",
                 "several sequences in a row, each by itself: i64 [sequences + 1] where the "
                 "queries of each start, from 0 to q_len");
  attention.text("--packed-keys", a.packed_keys, "F",
                 "the same for keys and values (default: as --packed)");
  attention.text("--dropout", a.dropout, "P",
                 "drop weights with this probability, 0 to below 1, and divide the others by "
                 "1 - P; changes the output alone");
  attention.text("--seed", a.seed, "N", "of --dropout: what is dropped (default 0)");
  offer(attention.text(
            "--precision", a.precision, "NAME",
            "auto (default; tile registers where there are some, or bf16 by its dot product where "
            "that is faster), fma, or fast (f32 and f16 by fewer products of tile registers, each "
            "off by 2^-14 at most)"),
        {"auto", "fma", "fast"});
  attention.flag("--invariant", a.invariant,
                 "one kernel class for all lengths, so that a row's bits do not depend on them");
}

// Output and weights.
void add_output_options(CLI::App& app, AttendArguments& a) {
  OptionGroup output(app, "Output");
  output.text("--output", a.output, "F",
              "output [..., q_len, d_v]: F.npy, F.npz[:NAME], F.safetensors[:NAME]; - is standard "
              "output");
  output.text("--weights", a.weights, "F", "weights [..., q_len, k_len]");
  offer(output.text("--output-dtype", a.output_dtype, "T",
                    "f32 for bf16 and f16 inputs (default: the inputs')"),
        float_words());
  output.text("--weights-rows", a.weights_rows, "ROWS",
              "only the weights of these queries: 0,5,9, or a:b for a to b - 1");
  output.many("--weights-heads", a.weights_heads, "B,H",
              "only the weights of this head (repeatable), or all");
  output.text("--weights-pool", a.weights_pool, "RxC[:POOL]",
              "R x C cells instead of every weight; POOL: mean (default), max or sum of a cell's "
              "pairs");
}

// Captures that need no matrix of weights.
void add_capture_options(CLI::App& app, AttendArguments& a) {
  OptionGroup output(app, "Output");
  output.text_or_none(
      "--stats", a.stats_file, "[F]",
      "print per head the entropy, the keys that receive most, the share of allowed pairs; or "
      "write top_k_keys, top_k_weights, entropy and received into F.npz or F.safetensors");
  output.text("--top-k", a.top_k, "K",
              "per query the K keys of greatest weight, printed for small problems (default 16)");
  output.text("--top-keys", a.top_keys, "F", "their keys, i64 [..., q_len, K]; -1: no more keys");
  output.text("--top-weights", a.top_weights, "F", "their weights [..., q_len, K]");
  output.text("--entropy", a.entropy, "F", "-sum w ln w of each query's weights, [..., q_len]");
  output.text("--received", a.received, "F",
              "the sum of the weights that each key gets, [..., k_len]");
  output.text("--lse", a.lse, "F", "natural logarithm of the sum of e^score, [..., q_len]");
}

void add_output_flags(CLI::App& app, AttendArguments& a) {
  OptionGroup output(app, "Output");
  output.flag("--json", a.json, "a summary for programs on standard output (docs/json.md)");
  output.flag("--force,-f", a.force, "overwrite existing files");
  output.flag("--peak", a.peak,
              "print the summary, with the machine's measured peak and the memory that was used");
  output.flag("--plan", a.plan,
              "say what the call would do and take: kernel, threads, tiles, memory; compute and "
              "write nothing");
}

void add_gradient_options(CLI::App& app, AttendArguments& a) {
  OptionGroup gradients(app, "Gradients");
  gradients.text("--grad-output", a.grad_output, "F",
                 "the gradient of the output, of its shape: gradients of the scale and of scores "
                 "are then part of the summary");
  gradients.text("--grad-lse", a.grad_lse, "F",
                 "the gradient of what --lse writes, [..., q_len] (default 0)");
  gradients.text("--grad-query", a.grad_query, "F", "gradient of the query, of its shape");
  gradients.text("--grad-key", a.grad_key, "F", "gradient of the key, of its shape");
  gradients.text("--grad-value", a.grad_value, "F", "gradient of the value, of its shape");
  gradients.text("--grad-bias,--grad-mask", a.grad_bias, "F", "gradient of the bias, of its shape");
  gradients.text(
      "--grad-relative", a.grad_relative, "F",
      "gradients of the tensors of --relative, by their names, into F.npz or F.safetensors");
}

void add_limit_options(CLI::App& app, AttendArguments& a) {
  OptionGroup limits(app, "Limits");
  limits.text("--threads", a.threads, "N",
              "use at most N threads (default: what the machine gives, or RAPT_THREADS)");
  offer(limits.text("--progress", a.progress, "HOW",
                    "auto (default; on a terminal, after a second), json (lines on standard "
                    "error, docs/json.md) or none"),
        {"auto", "json", "none"});
  offer(limits.text("--memory", a.memory, "NAME",
                    "auto (default) or low: less workspace where tile registers multiply, the "
                    "same bits"),
        {"auto", "low"});
  limits.text("--memory-limit", a.memory_limit, "SIZE",
              "refuse to take more, 512M or 8GiB (default: what is available)");
}

// Rejects a file that is named as two outputs. Several tensors may go into one .npz or .safetensors
// file; TensorOutputs rejects two of the same name.
void check_outputs(const AttendArguments& a) {
  std::vector<std::string> names = a.picture.targets;
  for (const TensorTarget& target : tensor_targets(a)) {
    if (target.path->empty()) continue;
    const std::string path = place_of(std::string("--") + target.what, *target.path).path;
    for (const std::string& picture : a.picture.targets)
      if (same_file(path, picture)) throw usage_error("'" + path + "' is named as two outputs");
    names.push_back(path);
  }
  for (const auto& [option, file] :
       {std::pair("--stats", &a.stats_file), std::pair("--grad-relative", &a.grad_relative)}) {
    if (file->empty()) continue;
    const TensorPlace place = place_of(option, *file);
    if (!place.many())
      throw usage_error(fmt::format(
          "{}: several tensors go into a .npz or .safetensors file, got '{}'", option, *file));
    if (!place.name.empty())
      throw usage_error(
          fmt::format("{}: its tensors have names of their own, got '{}'", option, *file));
    for (const std::string& picture : a.picture.targets)
      if (same_file(place.path, picture))
        throw usage_error("'" + place.path + "' is named as two outputs");
  }
  for (size_t i = 0; i < a.picture.targets.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (same_file(a.picture.targets[i], a.picture.targets[j]))
        throw usage_error("'" + a.picture.targets[i] + "' is named as two outputs");
  if (std::count(names.begin(), names.end(), "-") + a.json > 1) {
    throw usage_error("standard output can take one of --json, --heatmap - and '-' for a file");
  }
}

void check_together(const AttendArguments& a) {
  const bool files = !a.query.empty() || !a.key.empty() || !a.value.empty();
  if (!a.text.empty() && files) {
    throw usage_error("--text makes query, key and value; it cannot be joined by files for them");
  }
  if (a.text.empty() && (a.query.empty() || a.key.empty() || a.value.empty())) {
    throw usage_error("expected --query, --key and --value, or --text");
  }
  if (a.text.empty() && (!a.dim.empty() || !a.heads.empty())) {
    throw usage_error("--dim and --heads belong to --text");
  }
  const bool picture = !a.picture.targets.empty();
  if (a.weights.empty() && (!a.weights_rows.empty() || !a.weights_heads.empty())) {
    throw usage_error("--weights-rows and --weights-heads need --weights");
  }
  if (a.weights.empty() && !picture && !a.weights_pool.empty()) {
    throw usage_error("--weights-pool needs --weights or --heatmap");
  }
  if (!a.weights_rows.empty() && !a.weights_pool.empty()) {
    throw usage_error("--weights-rows chooses rows and --weights-pool pools all; expected one");
  }
  if (!picture && !a.head.empty()) throw usage_error("--head needs --heatmap");
  if (a.packed.empty() && !a.packed_keys.empty()) {
    throw usage_error("--packed-keys needs --packed, where the queries of each sequence start");
  }
  (void)bias_order_from(a.bias_order, !a.softcap.empty() || !a.scores.empty());
  if (!a.has_rotary && !a.query_start.empty()) throw usage_error("--query-start needs --rotary");
  if (a.dropout.empty() && !a.seed.empty()) throw usage_error("--seed needs --dropout");
  check_gradient_options(a);
  (void)progress_style(a.progress);
  (void)precision_from(a.precision);
  if (a.memory != "auto" && a.memory != "low") {
    throw usage_error("--memory: expected auto or low, got '" + a.memory + "'");
  }
  check_outputs(a);
  const std::string* const inputs[] = {&a.query,  &a.key,         &a.value,       &a.bias,
                                       &a.packed, &a.packed_keys, &a.grad_output, &a.grad_lse};
  if (std::count_if(std::begin(inputs), std::end(inputs),
                    [](const std::string* name) { return *name == "-"; }) > 1) {
    throw usage_error("standard input can be read once");
  }
}

}  // namespace

Precision precision_from(const std::string& name) {
  if (name == "auto") return Precision::automatic;
  if (name == "fma") return Precision::fma;
  if (name == "fast") return Precision::fast;
  throw usage_error("--precision: expected auto, fma or fast, got '" + name + "'");
}

ProgressStyle progress_style(const std::string& name) {
  if (name == "auto") return ProgressStyle::terminal;
  if (name == "json") return ProgressStyle::json;
  if (name == "none") return ProgressStyle::none;
  throw usage_error("--progress: expected auto, json or none, got '" + name + "'");
}

std::vector<TensorTarget> tensor_targets(const AttendArguments& a) {
  return {{"output", &a.output},         {"weights", &a.weights},         {"lse", &a.lse},
          {"top-keys", &a.top_keys},     {"top-weights", &a.top_weights}, {"entropy", &a.entropy},
          {"received", &a.received},     {"grad-query", &a.grad_query},   {"grad-key", &a.grad_key},
          {"grad-value", &a.grad_value}, {"grad-bias", &a.grad_bias}};
}

void add_attend_options(CLI::App& app, AttendArguments& a) {
  add_input_options(app, a);
  add_score_options(app, a);
  add_position_options(app, a);
  add_call_options(app, a);
  add_output_options(app, a);
  add_capture_options(app, a);
  add_output_flags(app, a);
  add_gradient_options(app, a);
  add_npy_v2_option(app, a.npy_v2);
  add_picture_options(app, a.picture);
  OptionGroup(app, "Picture").text("--head", a.head, "B,H", "the head to draw (default 0,0)");
  add_limit_options(app, a);
  app.footer(
      "Without an output a summary is printed. RAPT_ISA=scalar|avx2|avx512|amx names the highest\n"
      "instruction set that may be used. A picture of more than 1,024 queries or keys shows the\n"
      "greatest weight of each cell; --weights-pool chooses other cells.\n\n"
      "  rapt attend --query q.npy --key k.npy --value v.npy --mask causal --output o.npy\n"
      "  rapt attend --text \"the cat sat because the cat was tired\" --heatmap -");
}

void check_attend_usage(const CLI::App& app, AttendArguments& arguments) {
  arguments.stats = app.get_option("--stats")->count() > 0;
  arguments.has_cosine = app.get_option("--cosine")->count() > 0;
  arguments.has_rotary = app.get_option("--rotary")->count() > 0;
  check_together(arguments);
}

}  // namespace rapt::cli

// The options of `rapt generate`, and their checks.
#include "cli/generate/generate_arguments.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/generate/default_sampling.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

constexpr int64_t kGeneratedLength = 200;
constexpr int64_t kMostGenerated = 1'000'000;
constexpr int64_t kMostTexts = 1024;
// Rows of the picture of --attention: the numbers of a few thousand are kept until the end.
constexpr int64_t kMostAttentionRows = 4096;

generation::SamplingOptions sampling_of(const GenerateArguments& a) {
  generation::SamplingOptions sampling = kDefaultSampling;
  const auto read = [](const std::string& option, const std::string& text, double& value) {
    if (!text.empty()) value = parse_real(option, text);
  };
  read("--temperature", a.temperature, sampling.temperature);
  read("--top-p", a.top_p, sampling.top_p);
  read("--min-p", a.min_p, sampling.min_p);
  if (sampling.temperature < 0)
    throw usage_error("--temperature: expected 0 or more, got " + a.temperature);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    throw usage_error("--top-p: expected more than 0, at most 1, got " + a.top_p);
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1))
    throw usage_error("--min-p: expected 0 to 1, got " + a.min_p);
  sampling.top_k = integer_from("--top-k", a.top_k, 0, 1);
  sampling.seed = static_cast<uint64_t>(integer_from("--seed", a.seed, 1, 0));
  return sampling;
}

generation::WhenFull when_full_from(const std::string& name) {
  if (name.empty() || name == "stop") return generation::WhenFull::stop;
  if (name == "slide") return generation::WhenFull::slide;
  throw usage_error("--when-full: expected stop or slide, got '" + name + "'");
}

DType model_dtype_from(const std::string& name) {
  if (name.empty() || name == "f32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  throw usage_error("--dtype: expected f32 or bf16, got '" + name + "'");
}

bool cache_as_stored_from(const std::string& name, DType computed) {
  if (!name.empty() && name != "f32" && name != "model")
    throw usage_error("--cache-dtype: expected f32 or model, got '" + name + "'");
  if (computed == DType::bf16 && name == "f32")
    throw usage_error("--cache-dtype f32: --dtype bf16 keeps keys and values in bf16");
  return name == "model" && computed == DType::f32;
}

void check_attention_options(const GenerateArguments& a,
                             const generation::GeneratorOptions& options) {
  if (a.attention.empty()) {
    if (!a.attention_layer.empty() || !a.attention_head.empty())
      throw usage_error("--attention-layer and --attention-head need --attention");
    return;
  }
  if (a.attention == "-")
    throw usage_error("--attention: standard output has the text; expected a file");
  if (!is_picture(a.attention)) place_of("--attention", a.attention);
  if (options.sequences > 1) throw usage_error("--attention draws one text; leave out --num");
  if (a.prompts.size() > 1) throw usage_error("--attention draws one text; expected one --prompt");
  if (options.length > kMostAttentionRows)
    throw usage_error(fmt::format(
        "--attention has a row for each token, at most {}; lower --length", kMostAttentionRows));
}

void add_sampling_options(CLI::App& app, GenerateArguments& a) {
  const auto number = [&](const char* name, std::string& value, const char* type,
                          const std::string& help) {
    app.add_option(name, value, help)->type_name(type)->group("Sampling");
  };
  number("--temperature", a.temperature, "T",
         fmt::format("divides the logits (default {}); 0 takes the most probable token",
                     kDefaultSampling.temperature));
  number("--top-k", a.top_k, "K", "draw from the K most probable tokens (default: all)");
  number("--top-p", a.top_p, "P",
         "draw from the fewest most probable tokens with a sum of P (default 1)");
  number("--min-p", a.min_p, "P",
         fmt::format("draw from tokens with at least P times the greatest probability (default {})",
                     kDefaultSampling.min_p));
  number("--seed", a.seed, "N", "of the random numbers (default 1)");
}

void add_attention_options(CLI::App& app, GenerateArguments& a) {
  const auto option = [&](const char* name, std::string& value, const char* type,
                          const std::string& help) {
    app.add_option(name, value, help)->type_name(type)->group("Attention");
  };
  option("--attention", a.attention, "F",
         "what each written token looked at: a picture, F.svg or F.png, or a tensor in F.npy, "
         "F.npz or F.safetensors");
  option("--attention-layer", a.attention_layer, "L", "of this layer, from 0 (default: the last)");
  option("--attention-head", a.attention_head, "H", "of this head, from 0 (default 0)");
  app.add_flag("--force,-f", a.force, "overwrite the file")->group("Attention");
}

}  // namespace

bool is_picture(const std::string& path) {
  return path.ends_with(".svg") || path.ends_with(".png");
}

void add_generate_options(CLI::App& app, GenerateArguments& a) {
  app.add_option(
         "DIR", a.folder,
         "a folder with config.json, model.safetensors and tokenizer.json, or of rapt train")
      ->type_name("");
  app.add_option("--prompt", a.prompts,
                 "the text to continue (repeatable); @F: each line of a file is one")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--prompt-file", a.prompt_file, "a whole file is the text to continue")
      ->type_name("F");
  app.add_option("--length", a.length,
                 fmt::format("write at most N tokens (default {})", kGeneratedLength))
      ->type_name("N");
  app.add_option("--num", a.num, "continue each prompt N times (default 1)")->type_name("N");
  app.add_option("--stop", a.stop, "end a text before TEXT (repeatable)")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  offer(app.add_option("--when-full", a.when_full,
                       "when the context is full: stop (default), or slide: read the newest half "
                       "anew and go on")
            ->type_name("HOW"),
        {"stop", "slide"});
  offer(app.add_option("--dtype", a.dtype, "compute in f32 (default) or bf16")->type_name("TYPE"),
        {"f32", "bf16"});
  offer(app.add_option("--cache-dtype", a.cache_dtype,
                       "with --dtype f32: keep keys and values in f32 (default), or in the type of "
                       "the model's weights")
            ->type_name("TYPE"),
        {"f32", "model"});
  app.add_flag("--invariant", a.invariant,
               "one kernel class for all lengths, so that logits have the bits of one pass");
  app.add_option("--threads", a.threads,
                 "use at most N threads (default: what the machine gives, or RAPT_THREADS)")
      ->type_name("N");
  app.add_flag("--json", a.json, "one document at the end, for programs (docs/json.md)");
  add_sampling_options(app, a);
  add_attention_options(app, a);
}

GenerateSettings generate_settings(const GenerateArguments& a) {
  if (a.folder.empty()) throw usage_error("expected the folder of a model");
  if (!a.prompts.empty() && !a.prompt_file.empty())
    throw usage_error("--prompt and --prompt-file: expected one of them");
  GenerateSettings settings;
  settings.options = {
      .sampling = sampling_of(a),
      .sequences = integer_within("--num", a.num, 1, 1, kMostTexts),
      .length = integer_within("--length", a.length, kGeneratedLength, 1, kMostGenerated),
      .when_full = when_full_from(a.when_full),
      .invariant = a.invariant};
  check_attention_options(a, settings.options);
  if (!a.attention_layer.empty())
    settings.layer = integer_from("--attention-layer", a.attention_layer, 0, 0);
  settings.head = integer_from("--attention-head", a.attention_head, 0, 0);
  settings.dtype = model_dtype_from(a.dtype);
  settings.cache_as_stored = cache_as_stored_from(a.cache_dtype, settings.dtype);
  settings.context.threads = parse_threads(a.threads);
  return settings;
}

}  // namespace rapt::cli

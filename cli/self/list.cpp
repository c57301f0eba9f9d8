// rapt list: the names that the command line accepts: masks, scores, normalisers, methods, feature
// maps, row transforms, relative positions, formats, dtypes; and the dialects of rapt/dialect.h.
//
// The variants are those of the catalogue, with the parameters that each declares.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"
#include "rapt/dialect.h"
#include "rapt/masks.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Format {
  const char* name;
  const char* ending;
  const char* doc;
};
constexpr Format kTensorFormats[] = {
    {"npy", ".npy",
     "one NumPy array; either byte order, either order of dimensions; read and written"},
    {"npz", ".npz", "NumPy arrays by name, FILE.npz:NAME; stored or deflated; read and written"},
    {"safetensors", ".safetensors", "tensors by name, FILE.safetensors:NAME; read and written"},
    {"csv", ".csv", "a small matrix, a row per line; read and written by convert"},
    {"json", ".json", "small nested arrays of numbers; read and written by convert"},
    {"raw", ".raw", "elements without a header, row-major; read with --shape and --dtype, written"},
    {"svg", ".svg", "a picture that scales; written by --heatmap"},
    {"png", ".png", "a picture of pixels; written by --heatmap"},
};

struct Type {
  DType dtype;
  const char* doc;
};
constexpr Type kTypes[] = {
    {DType::f32, "IEEE single precision; computed in"},
    {DType::f64, "IEEE double precision; computed in"},
    {DType::bf16, "the upper half of f32: 8 bits of precision; computed in, sums are f32"},
    {DType::f16, "IEEE half precision: 11 bits of precision; computed in, sums are f32"},
    {DType::i64, "lengths, ids and starts of documents, keys"},
    {DType::i32, "as i64, where a file has it"},
    {DType::u8, "bytes of a file"},
    {DType::boolean, "masks: true = may attend"},
};

template <class M>
constexpr size_t most_parts_of() {
  if constexpr (requires { M::kMostParts; }) return M::kMostParts;
  return 0;
}

template <class... M>
size_t most_parts_among(TypeList<M...>, const Declaration& declaration) {
  size_t most = 0;
  ((&M::kDeclaration == &declaration ? void(most = most_parts_of<M>()) : void()), ...);
  return most;
}

// The largest number of masks that a mask combines; 0: it combines none.
size_t most_parts(const Declaration& declaration) { return most_parts_among(Masks{}, declaration); }

std::string shown_number(double value) { return fmt::format("{}", value); }

const char* type_name(ParameterType type) {
  switch (type) {
    case ParameterType::integer:
      return "integer";
    case ParameterType::real:
      return "real";
    case ParameterType::choice:
      return "choice";
    case ParameterType::tensor:
      return "tensor";
  }
  return "";
}

// Gives no text for a side of a range that only the type limits.
std::string range_text(const Parameter& p) {
  const Range open = p.type == ParameterType::integer ? kAnyInteger : kAnyNumber;
  std::string text;
  if (p.range.min > open.min) text += " from " + shown_number(p.range.min);
  if (p.range.max < open.max) text += " to " + shown_number(p.range.max);
  return text;
}

std::string values_text(const Parameter& p) {
  switch (p.type) {
    case ParameterType::integer:
      return "whole number" + range_text(p);
    case ParameterType::real:
      return "number" + range_text(p);
    case ParameterType::choice:
      return fmt::format("{}", fmt::join(p.choices, " | "));
    case ParameterType::tensor:
      return "file" + (range_text(p).empty() ? "" : " of numbers" + range_text(p));
  }
  return "";
}

std::string default_text(const Parameter& p) {
  const Argument initial = p.initial();
  switch (p.type) {
    case ParameterType::integer:
      return std::to_string(initial.integer);
    case ParameterType::real:
      return shown_number(initial.real);
    case ParameterType::choice:
      return p.choices[static_cast<size_t>(initial.integer)];
    case ParameterType::tensor:
      return "none";
  }
  return "";
}

// "window(left=-1, right=-1, anchor=top-left)", "lengths(lengths)", "or(MASK, MASK, ...)"
std::string signature(const Declaration& declaration) {
  std::vector<std::string> inside;
  for (const Parameter& p : declaration.parameters) {
    // A default of "none" has no word.
    const bool none = p.type == ParameterType::tensor ||
                      (p.type == ParameterType::real && std::isnan(p.initial().real));
    if (none && !p.required) continue;
    inside.push_back(p.required ? p.name : std::string(p.name) + "=" + default_text(p));
  }
  const size_t parts = most_parts(declaration);
  if (parts == 1) inside = {"MASK"};
  if (parts > 1) inside = {"MASK", "MASK", "..."};
  return inside.empty() ? declaration.name
                        : fmt::format("{}({})", declaration.name, fmt::join(inside, ", "));
}

void print_variants(std::span<const Declaration* const> declarations) {
  for (const Declaration* declaration : declarations) {
    fmt::print("  {}\n      {}\n", signature(*declaration), declaration->doc);
    for (const Parameter& p : declaration->parameters)
      fmt::print("      {:<12} {}: {}{}\n", p.name, values_text(p), p.doc,
                 p.required ? " (required)" : "");
    fmt::print("      {:<12} {}\n", "source", declaration->source);
  }
}

Json json_of(const Parameter& p) {
  const bool number = p.type == ParameterType::integer || p.type == ParameterType::real;
  const Argument initial = p.initial();
  Json json{{"name", p.name}, {"type", type_name(p.type)}, {"doc", p.doc}};
  json["range"] = number ? Json{p.range.min, p.range.max} : Json();
  json["choices"] = Json::array();
  for (const char* choice : p.choices) json["choices"].push_back(choice);
  json["required"] = p.required;
  json["default"] = p.required || p.type == ParameterType::tensor ? Json()
                    : p.type == ParameterType::integer            ? Json(initial.integer)
                    : p.type == ParameterType::real               ? Json(initial.real)
                                                                  : Json(default_text(p));
  return json;
}

Json json_of_variants(std::span<const Declaration* const> declarations) {
  Json list = Json::array();
  for (const Declaration* declaration : declarations) {
    Json parameters = Json::array();
    for (const Parameter& p : declaration->parameters) parameters.push_back(json_of(p));
    list.push_back(Json{{"name", declaration->name},
                        {"doc", declaration->doc},
                        {"source", declaration->source},
                        {"parameters", parameters},
                        {"most_parts", most_parts(*declaration)}});
  }
  return list;
}

void print_formats() {
  for (const Format& format : kTensorFormats) fmt::print("  {:<12} {}\n", format.name, format.doc);
}

Json json_of_formats() {
  Json list = Json::array();
  for (const Format& format : kTensorFormats)
    list.push_back(Json{{"name", format.name}, {"ending", format.ending}, {"doc", format.doc}});
  return list;
}

void print_types() {
  for (const Type& type : kTypes)
    fmt::print("  {:<5} {} {:<6} {}\n", name_of(type.dtype), size_of(type.dtype),
               size_of(type.dtype) == 1 ? "byte" : "bytes", type.doc);
}

Json json_of_types() {
  Json list = Json::array();
  for (const Type& type : kTypes)
    list.push_back(
        Json{{"name", name_of(type.dtype)}, {"bytes", size_of(type.dtype)}, {"doc", type.doc}});
  return list;
}

// The conventions of a dialect, under their JSON names.
std::vector<std::pair<const char*, std::string>> meanings(const Dialect& d) {
  const auto word = [](const auto& names, auto value) {
    return std::string(names[static_cast<size_t>(value)]);
  };
  return {
      {"layout", word(kDialectLayoutNames, d.layout)},
      {"default_scale", word(kDialectScaleNames, d.scale)},
      {"true_in_a_mask", word(kMaskPolarityNames, d.mask)},
      {"bias", d.bias ? "added" : "none"},
      {"causal_anchor", word(kDialectAnchorNames, d.anchor)},
      {"window_left_counts", word(kWindowCountNames, d.window)},
      {"softcap", word(kSoftcapPlaceNames, d.softcap)},
      {"lengths_of_keys", word(kDialectLengthsNames, d.lengths)},
      {"keys_in_pages", d.pages ? "block table" : "none"},
      {"base_of_lse", word(kLseBaseNames, d.lse)},
      {"lse_without_keys", d.lse == LseBase::none ? "none" : fmt::format("{:.3g}", d.empty_lse)},
      {"output_without_keys", word(kEmptyRowNames, d.empty)}};
}

void print_dialects() {
  for (const Dialect& d : dialects()) {
    fmt::print("  {}\n      {}\n", d.name, d.function);
    for (const auto& [name, meaning] : meanings(d)) fmt::print("      {:<20} {}\n", name, meaning);
  }
}

Json json_of_dialects() {
  Json list = Json::array();
  for (const Dialect& d : dialects()) {
    Json json{{"name", d.name}, {"function", d.function}};
    for (const auto& [name, meaning] : meanings(d)) json[name] = meaning;
    list.push_back(json);
  }
  return list;
}

struct Kind {
  const char* name;
  void (*print)();
  Json (*json)();
};
constexpr Kind kKinds[] = {
    {"masks", [] { print_variants(mask_declarations()); },
     [] { return json_of_variants(mask_declarations()); }},
    {"scores", [] { print_variants(score_declarations()); },
     [] { return json_of_variants(score_declarations()); }},
    {"normalizers", [] { print_variants(normalizer_declarations()); },
     [] { return json_of_variants(normalizer_declarations()); }},
    {"methods", [] { print_variants(method_declarations()); },
     [] { return json_of_variants(method_declarations()); }},
    {"maps", [] { print_variants(feature_map_declarations()); },
     [] { return json_of_variants(feature_map_declarations()); }},
    {"row-changes", [] { print_variants(row_transform_declarations()); },
     [] { return json_of_variants(row_transform_declarations()); }},
    {"products", [] { print_variants(product_declarations()); },
     [] { return json_of_variants(product_declarations()); }},
    {"formats", print_formats, json_of_formats},
    {"dtypes", print_types, json_of_types},
    {"dialects", print_dialects, json_of_dialects},
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return names;
}

void check_kinds(const std::vector<std::string>& wanted) {
  const std::vector<std::string> names = kind_names();
  for (const std::string& name : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw usage_error(fmt::format("expected {}, got '{}'", fmt::join(names, ", "), name),
                      did_you_mean(name, known));
  }
}

void run_list(const std::vector<std::string>& wanted, bool json) {
  Json document{{"schema", "rapt.list/1"}, {"build", build_info()}};
  bool first = true;
  for (const Kind& kind : kKinds) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end())
      continue;
    if (json) {
      document[kind.name] = kind.json();
      continue;
    }
    fmt::print("{}{}\n", first ? "" : "\n", kind.name);
    kind.print();
    first = false;
  }
  if (json) print_json(document);
}

struct ListArguments {
  std::vector<std::string> kinds;
  bool json = false;
};

}  // namespace

Command add_list(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("list",
                          "masks, scores, normalizers, methods, feature maps, row changes, "
                          "products, formats, dtypes and dialects by name");
  const auto a = arguments_of<ListArguments>(*app);
  offer(app->add_option("KIND", a->kinds,
                        "masks, scores, normalizers, methods, maps, row-changes, products, "
                        "formats, dtypes or dialects (default: all)")
            ->type_name(""),
        kind_names());
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->footer("  rapt list masks");
  return {app, [a] { check_kinds(a->kinds); }, [a] { run_list(a->kinds, a->json); }};
}

}  // namespace rapt::cli

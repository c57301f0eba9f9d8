// rapt convert: tensors from files of any format into one file of another.
//
// Conversions that change a value are rejected, unless --lossy allows them. Tensors that need no
// conversion are written directly from the mapped file.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/commands.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/input/tensor_input.h"
#include "cli/output/narrate.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/io/raw.h"

namespace rapt::cli {
namespace {

struct ConvertArguments {
  std::vector<std::string> files;  // the last one is OUT
  std::string dtype, shape, npy_v2, memory_limit;
  bool raw = false, lossy = false, compress = false, force = false;
};

bool is_raw(const ConvertArguments& a, const std::string& path) {
  return a.raw || path.ends_with(".raw") || path.ends_with(".bin");
}

// "weights/q.npy" -> "q", for a tensor that has no name of its own.
std::string name_from(const std::string& path) {
  if (path == "-") return "tensor";
  const std::string file = path.substr(path.rfind('/') + 1);
  const size_t dot = file.rfind('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

std::vector<int64_t> parse_shape(const std::string& text) {
  if (text == "[]") return {};  // one number
  std::vector<int64_t> shape = parse_integers("--shape", text);
  if (std::any_of(shape.begin(), shape.end(), [](int64_t length) { return length < 0; }))
    throw usage_error("--shape: expected lengths of 0 or more, got '" + text + "'");
  if (std::ssize(shape) > kMaxRank)
    throw usage_error(fmt::format("--shape: expected at most {} dimensions", kMaxRank));
  return shape;
}

// A tensor that is to be written.
struct Item {
  std::string name;   // under which it is written
  std::string where;  // for messages: "q.npz:x"
  const StoredTensor* stored;
  LoadedTensor tensor = {};  // once it is loaded
};

std::string position_text(int64_t position, const TensorView& tensor) {
  std::vector<int64_t> index(static_cast<size_t>(tensor.rank));
  for (int d = tensor.rank - 1; d >= 0; --d) {
    index[static_cast<size_t>(d)] = position % tensor.shape[d];
    position /= tensor.shape[d];
  }
  return to_string(index);
}

void convert_dtype(Item& item, DType dtype, bool lossy, MemoryBudget& budget) {
  const TensorView& from = item.tensor.view();
  if (from.dtype == dtype) return;
  if (!lossy) {
    if (const std::optional<Loss> loss = loss_of(from, dtype))
      throw Failure(
          Exit::data,
          fmt::format("{}: element {} is {}, which {} cannot hold", item.where,
                      position_text(loss->position, from), loss->value, name_of(dtype)),
          "--lossy converts all the same: fractions are cut, too large numbers become the "
          "largest");
  }
  budget.take(from.count() * size_of(dtype), item.where + " as " + name_of(dtype));
  item.tensor = owned(converted(from, dtype));
}

// The same elements in another shape.
LoadedTensor reshaped(const LoadedTensor& tensor, const std::string& where,
                      const std::vector<int64_t>& shape) {
  const TensorView& from = tensor.view();
  if (element_count(shape) != from.count())
    throw Failure(Exit::data, fmt::format("--shape {}: {} has {} elements", to_string(shape), where,
                                          from.count()));
  Tensor copy = Tensor::copy_of(from);
  const TensorView view(copy.data(), copy.dtype(), shape, false);
  return {std::move(copy), view};
}

// The tensors of all IN files: listed at once, loaded later.
class Sources {
 public:
  Sources(const ConvertArguments& a, const std::vector<std::string>& names)
      : a_(a),
        budget_(parse_memory_limit(a.memory_limit)),
        input_(budget_, parse_npy_v2(a.npy_v2)) {
    if (!a.dtype.empty()) dtype_ = parse_dtype("--dtype", a.dtype);
    if (!a.shape.empty()) shape_ = parse_shape(a.shape);
    for (const std::string& name : names) list(name);
    if (items_.empty()) throw Failure(Exit::data, names[0] + " holds no tensor");
    if (names.size() > 1 && !metadata_.empty()) {
      narrate("metadata of the files are left out, since there are several");
      metadata_.clear();
    }
  }

  std::vector<Item>& items() { return items_; }
  const Metadata& metadata() const { return metadata_; }

  // The dtype to write; none for a type that rapt does not read.
  std::optional<DType> dtype_of(const Item& item) const {
    return dtype_ && item.stored->dtype ? dtype_ : item.stored->dtype;
  }

  void load(Item& item) {
    stop_if_interrupted();
    item.tensor = input_.read(item.where, *item.stored);
    if (shape_ && !raw_) item.tensor = reshaped(item.tensor, item.where, *shape_);
    if (dtype_) convert_dtype(item, *dtype_, a_.lossy, budget_);
  }

 private:
  void list(const std::string& text) {
    const TensorAddress address = address_of(text);
    if (is_raw(a_, address.path)) return list_raw(address);
    const TensorFile& file = input_.open("", address.path);
    const std::string_view format = file.format;
    if (shape_ && format != "csv" && format != "json")
      throw usage_error("--shape belongs to raw files, CSV and JSON, got " + address.path);
    for (const StoredTensor* stored : input_.find("", address)) {
      const bool named = !stored->name.empty();
      items_.push_back({named ? stored->name : name_from(address.path),
                        named ? address.path + ":" + stored->name : address.path, stored});
    }
    metadata_.insert(metadata_.end(), file.metadata.begin(), file.metadata.end());
  }

  void list_raw(const TensorAddress& address) {
    if (address.named)
      throw usage_error(address.path + " holds raw elements, got the name '" + address.name + "'");
    if (!dtype_ || !shape_)
      throw usage_error(address.path + " holds raw elements: expected --dtype and --shape of them",
                        "for example --dtype f32 --shape 2,1024,64");
    raw_ = open_raw(open_input("", address.path, budget_), *dtype_, *shape_);
    items_.push_back({name_from(address.path), address.path, &raw_->tensors[0]});
  }

  const ConvertArguments& a_;
  MemoryBudget budget_;
  TensorInput input_;
  std::optional<DType> dtype_;
  std::optional<std::vector<int64_t>> shape_;
  std::optional<TensorFile> raw_;  // the one IN that is raw
  std::vector<Item> items_;
  Metadata metadata_;
};

void check_convert(const ConvertArguments& a) {
  if (a.files.size() < 2) throw usage_error("expected IN and OUT, such as q.npy q.safetensors");
  const TensorPlace place = place_of("OUT", a.files.back(), Endings::any);
  if (a.compress && place.format != FileFormat::npz)
    throw usage_error("--compress belongs to .npz files, got '" + place.path + "'");
  if (!a.dtype.empty()) parse_dtype("--dtype", a.dtype);
  if (!a.shape.empty()) parse_shape(a.shape);
  if (!a.shape.empty() && a.files.size() > 2) throw usage_error("--shape is that of one IN");
  parse_memory_limit(a.memory_limit);
  parse_npy_v2(a.npy_v2);
}

void run_convert(const ConvertArguments& a) {
  const std::vector<std::string> names(a.files.begin(), a.files.end() - 1);
  const TensorPlace place = place_of("OUT", a.files.back(), Endings::any);
  TensorOutputs outputs(a.force ? Overwrite::yes : Overwrite::no, parse_npy_v2(a.npy_v2),
                        a.compress ? Compression::deflated : Compression::stored);
  Sources inputs(a, names);
  std::vector<Item>& items = inputs.items();
  if (items.size() > 1 && (!place.many() || !place.name.empty())) {
    const std::string one = place.name.empty() ? place.path : place.path + ":" + place.name;
    throw usage_error(fmt::format("{} takes one tensor, got {}", one, items.size()),
                      "choose one: IN:NAME");
  }
  for (const Item& item : items) {
    TensorPlace its = place;
    if (its.many() && its.name.empty()) its.name = item.name;
    outputs.add(item.name, "OUT", its);
    if (const std::optional<DType> dtype = inputs.dtype_of(item)) outputs.check(item.name, *dtype);
  }
  if (place.format == FileFormat::safetensors) {
    outputs.set_metadata(inputs.metadata());
  } else if (!inputs.metadata().empty()) {
    narrate("metadata of the file are left out: only .safetensors files hold them");
  }
  for (Item& item : items) {
    inputs.load(item);
    outputs.set(item.name, item.tensor.view());
  }
  outputs.write();
  stop_if_interrupted();
  outputs.commit();
}

}  // namespace

Command add_convert(CLI::App& root) {
  CLI::App* app = root.add_subcommand("convert", "tensors from one format to another");
  const auto a = arguments_of<ConvertArguments>(*app);
  app->add_option(
         "FILES", a->files,
         "IN... OUT: F.npy, F.npz[:NAME], F.safetensors[:NAME], F.csv, F.json, F.raw; - is "
         "standard input and output (.npy)")
      ->type_name("");
  const auto text = [&](const char* name, std::string& value, const char* type, const char* doc) {
    app->add_option(name, value, doc)->type_name(type);
  };
  text("--dtype", a->dtype, "T",
       "convert to f32, f64, bf16, f16, i64, i32, u8 or bool; of a raw IN: what it holds");
  text("--shape", a->shape, "N,N", "of a raw IN; of CSV and JSON, another shape");
  app->add_flag("--raw", a->raw, "IN holds raw elements, as files that end in .raw and .bin do");
  app->add_flag(
      "--lossy", a->lossy,
      "convert numbers that T cannot hold: cut fractions, make the largest of larger ones");
  app->add_flag("--compress", a->compress, "deflate the tensors of a .npz file");
  app->add_flag("--force,-f", a->force, "overwrite an existing file");
  text("--memory-limit", a->memory_limit, "SIZE",
       "refuse to take more, 512M or 8GiB (default: what is available)");
  add_npy_v2_option(*app, a->npy_v2);
  offer(app->get_option("--dtype"), dtype_words());
  app->footer(
      "Names are kept; a tensor without one gets that of its file. Raw elements are row-major, in\n"
      "this machine's byte order. CSV and JSON are for small matrices.\n\n"
      "  rapt convert q.npy k.npy v.npy problem.safetensors --dtype bf16\n"
      "  rapt convert model.safetensors:layer.0.query q.npy\n"
      "  rapt convert q.raw q.npy --dtype f32 --shape 2,1024,64");
  return {app, [a] { check_convert(*a); }, [a] { run_convert(*a); }};
}

}  // namespace rapt::cli

// The C interface: translates descriptors into the C++ call, and exceptions into a status and a
// message. It decides nothing about attention.
#include "rapt/rapt_c.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "rapt/attention.h"
#include "rapt/catalogue.h"
#include "rapt/version.h"

struct rapt_cancel_token {
  rapt::CancelToken token;
};

namespace rapt {
namespace {

// The numbers of the C interface are part of binary interfaces, those of the C++ one are not.
static_assert(static_cast<int>(Statistic::none) == RAPT_STATISTIC_NONE &&
              static_cast<int>(Statistic::lse) == RAPT_STATISTIC_LSE &&
              static_cast<int>(Statistic::threshold) == RAPT_STATISTIC_THRESHOLD);

// A plain array, so that keeping a message needs no memory when memory is what lacks.
thread_local char last_error[1024] = "";

void keep_message(const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
}

rapt_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::shape:
      return RAPT_ERROR_SHAPE;
    case ErrorCode::dtype:
      return RAPT_ERROR_DTYPE;
    case ErrorCode::argument:
      return RAPT_ERROR_ARGUMENT;
    case ErrorCode::overlap:
      return RAPT_ERROR_OVERLAP;
    case ErrorCode::overflow:
      return RAPT_ERROR_OVERFLOW;
    case ErrorCode::unknown_name:
      return RAPT_ERROR_UNKNOWN_NAME;
    case ErrorCode::unsupported:
      return RAPT_ERROR_UNSUPPORTED;
    case ErrorCode::memory_limit:
      return RAPT_ERROR_MEMORY_LIMIT;
    case ErrorCode::format:
      return RAPT_ERROR_FORMAT;
    case ErrorCode::io:
      return RAPT_ERROR_IO;
    case ErrorCode::cancelled:
      return RAPT_ERROR_CANCELLED;
  }
  return RAPT_ERROR_INTERNAL;
}

// Runs a call; whatever it throws ends here.
template <class Call>
rapt_status guarded(Call call) noexcept {
  try {
    call();
    return RAPT_OK;
  } catch (const Error& error) {
    keep_message(error.what());
    return status_of(error.code());
  } catch (const std::bad_alloc&) {
    keep_message("out of memory");
    return RAPT_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep_message(error.what());
    return RAPT_ERROR_INTERNAL;
  } catch (...) {
    keep_message("an exception that rapt does not know");
    return RAPT_ERROR_INTERNAL;
  }
}

[[noreturn]] void bad_argument(const std::string& message) {
  throw Error(ErrorCode::argument, message);
}

// What of a struct the first released version had: the least that its size field may say. When a
// struct grows, the line here stays as it is.
template <class T>
struct FirstVersion;
#define RAPT_FIRST_VERSION(type, last_member)                                                \
  template <>                                                                                \
  struct FirstVersion<type> {                                                                \
    static constexpr const char* kName = #type;                                              \
    static constexpr size_t kSize = offsetof(type, last_member) + sizeof(type::last_member); \
  };
RAPT_FIRST_VERSION(rapt_tensor, strides)
RAPT_FIRST_VERSION(rapt_variant, tensors)
RAPT_FIRST_VERSION(rapt_weights_request, heads)
RAPT_FIRST_VERSION(rapt_options, weights)
RAPT_FIRST_VERSION(rapt_results, weights)
RAPT_FIRST_VERSION(rapt_executor, run)
RAPT_FIRST_VERSION(rapt_context, memory_limit)
RAPT_FIRST_VERSION(rapt_plan_info, matrix_bytes)
#undef RAPT_FIRST_VERSION

// No struct will ever come near; a size beyond is a field that was not set, and reading that many
// bytes would crash.
constexpr size_t kLargestStruct = 4096;

template <class T>
void check_size(const T* given) {
  const char* type = FirstVersion<T>::kName;
  if (!given) bad_argument(std::string("a null pointer where a ") + type + " is expected");
  if (given->size < FirstVersion<T>::kSize || given->size > kLargestStruct)
    bad_argument(std::string("the size field of a ") + type + " is " + std::to_string(given->size) +
                 "; set it to sizeof(" + type + "), which is " + std::to_string(sizeof(T)));
}

// A copy of a caller's struct as this version knows it.
template <class T>
T known_part(const T* given) {
  check_size(given);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < given->size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorCode::unsupported, std::string("a ") + FirstVersion<T>::kName + " of " +
                                              std::to_string(given->size) +
                                              " bytes uses what rapt " + version() +
                                              " does not have; update the library");
  T copy = {};
  std::memcpy(&copy, given, given->size < sizeof(T) ? given->size : sizeof(T));
  return copy;
}

DType dtype_of(const char* name, rapt_dtype given) {
  switch (given) {
    case RAPT_F32:
      return DType::f32;
    case RAPT_F64:
      return DType::f64;
    case RAPT_BF16:
      return DType::bf16;
    case RAPT_F16:
      return DType::f16;
    case RAPT_I64:
      return DType::i64;
    case RAPT_I32:
      return DType::i32;
    case RAPT_U8:
      return DType::u8;
    case RAPT_BOOL:
      return DType::boolean;
    case 0:
      throw Error(ErrorCode::dtype, std::string(name) +
                                        " has no dtype: the field is 0; set it to RAPT_F32 or "
                                        "another one of rapt_c.h");
    default:
      throw Error(ErrorCode::dtype, std::string(name) + " has dtype " + std::to_string(given) +
                                        "; expected one of the RAPT_F32, ... of rapt_c.h");
  }
}

enum class Presence : uint8_t { required, optional };

TensorView view_of(const char* name, const rapt_tensor* given, Presence presence) {
  if (!given) {
    if (presence == Presence::optional) return {};
    bad_argument(std::string(name) + " is a null pointer");
  }
  const rapt_tensor t = known_part(given);
  const DType dtype = dtype_of(name, t.dtype);
  if (t.device != RAPT_CPU)
    throw Error(ErrorCode::unsupported, std::string(name) + " is on device " +
                                            std::to_string(t.device) + "; expected RAPT_CPU");
  if (t.rank < 0 || t.rank > kMaxRank)
    throw Error(ErrorCode::shape, std::string(name) + " has rank " + std::to_string(t.rank) +
                                      "; expected 0 to " + std::to_string(kMaxRank));
  if (t.rank > 0 && !t.shape)
    bad_argument(std::string(name) + " has rank " + std::to_string(t.rank) + " but a null shape");
  const auto rank = static_cast<size_t>(t.rank);
  const bool read_only = t.read_only != 0;
  if (!t.strides) return {t.data, dtype, Shape(t.shape, rank), read_only};
  return {t.data, dtype, Shape(t.shape, rank), Shape(t.strides, rank), read_only};
}

// `role`: "mask" or "normaliser", for messages.
rapt_variant variant_of(const char* role, const char* example, const rapt_variant* given) {
  const rapt_variant v = known_part(given);
  if (!v.spec)
    bad_argument(std::string("a ") + role + " without spec; expected its name, like \"" + example +
                 "\"");
  if (v.tensor_count > 0 && !v.tensors)
    bad_argument(std::string(role) + " " + v.spec + " has tensors but a null pointer to them");
  return v;
}

std::unique_ptr<Mask> mask_of(const rapt_variant* given) {
  const rapt_variant m = variant_of("mask", "causal", given);
  return make_mask(m.spec, [&m](std::string_view name) {
    for (size_t i = 0; i < m.tensor_count; ++i) {
      const rapt_named_tensor& candidate = m.tensors[i];
      if (candidate.name && name == candidate.name) {
        const TensorView view = view_of(candidate.name, candidate.tensor, Presence::required);
        if (view.count() > 0 && !view.data)
          bad_argument(std::string(name) + " has elements but a null data pointer");
        return view;
      }
    }
    throw Error(ErrorCode::unknown_name, std::string("mask ") + m.spec +
                                             " names no tensor of the mask's `tensors`: \"" +
                                             std::string(name) + "\"");
  });
}

// No normaliser of the catalogue has a parameter, so that a spec is a name.
template <class... N>
NormalizerRef normalizer_of(const rapt_variant* given, TypeList<N...>) {
  if (!given) return kSoftmax;
  const std::string_view spec = variant_of("normaliser", "softmax", given).spec;
  const std::string_view name = spec.substr(0, spec.find_first_of("(:"));
  static constexpr std::tuple<N...> kDefaults;
  std::optional<NormalizerRef> found;
  ((name == N::kDeclaration.name ? static_cast<void>(found.emplace(std::get<N>(kDefaults)))
                                 : static_cast<void>(0)),
   ...);
  if (!found) {
    const std::string_view known[] = {N::kDeclaration.name...};
    const std::string guess = nearest(name, known);
    std::string list;
    for (const std::string_view n : known) list += (list.empty() ? "" : ", ") + std::string(n);
    throw Error(ErrorCode::unknown_name,
                "there is no normaliser \"" + std::string(name) + "\"" +
                    (guess.empty() ? "." : "; did you mean " + guess + "?") + " Known: " + list);
  }
  if (name.size() < spec.size() && spec.substr(name.size()) != "()")
    throw Error(ErrorCode::unknown_name, "normaliser " + std::string(name) +
                                             " has no parameters; got \"" + std::string(spec) +
                                             "\", expected \"" + std::string(name) + "\"");
  return *found;
}

// The caller's options, with the masks that AttentionOptions only points to.
class Options {
 public:
  explicit Options(const rapt_options* given) {
    if (!given) return;
    const rapt_options o = known_part(given);
    if (o.scale) options_.scale = *o.scale;
    if (o.mask_count > 0 && !o.masks) bad_argument("options have masks but a null pointer to them");
    for (size_t i = 0; i < o.mask_count; ++i) masks_.push_back(mask_of(o.masks[i]));
    for (const auto& mask : masks_) pointers_.push_back(mask.get());
    options_.masks = pointers_;
    options_.bias = view_of("bias", o.bias, Presence::optional);
    options_.normalizer = normalizer_of(o.normalizer, Normalizers{});
    if (o.weights) {
      const rapt_weights_request w = known_part(o.weights);
      if (w.head_count > 0 && !w.heads)
        bad_argument("weights of chosen heads are wanted but `heads` is a null pointer");
      if (w.row_end < 0)
        bad_argument("weights: row_end is " + std::to_string(w.row_end) +
                     "; expected a row, or 0 for all up to the last");
      const int64_t row_end = w.row_end == 0 ? kToEnd : w.row_end;
      options_.weights = WeightsRequest{w.row_begin, row_end, {w.heads, w.head_count}};
    }
  }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  const AttentionOptions& get() const { return options_; }

 private:
  AttentionOptions options_;
  std::vector<std::unique_ptr<Mask>> masks_;
  std::vector<const Mask*> pointers_;
};

class CallersExecutor final : public Executor {
 public:
  explicit CallersExecutor(const rapt_executor& table) : table_(table) {
    if (!table.concurrency || !table.run)
      bad_argument("an executor needs both functions: concurrency and run");
  }
  int concurrency() const noexcept override { return table_.concurrency(table_.user); }
  void run(int64_t tasks, Task task, void* argument) override {
    table_.run(table_.user, tasks, task, argument);
  }

 private:
  const rapt_executor table_;
};

// The caller's context, with the executor that Context only points to.
class CallContext {
 public:
  explicit CallContext(const rapt_context* given) {
    if (!given) return;
    const rapt_context c = known_part(given);
    if (c.executor) {
      executor_.emplace(known_part(c.executor));
      context_.executor = &*executor_;
    }
    if (c.cancel) context_.cancel = &c.cancel->token;
    context_.progress = {c.progress, c.progress_user};
    if (c.memory_limit < 0)
      bad_argument("memory_limit is " + std::to_string(c.memory_limit) +
                   "; expected bytes, or 0 for no limit");
    if (c.memory_limit > 0) context_.memory_limit = c.memory_limit;
  }
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  const Context& get() const { return context_; }

 private:
  Context context_;
  std::optional<CallersExecutor> executor_;
};

void write_plan(const Plan& plan, rapt_plan_info* out) {
  rapt_plan_info info = {};
  info.size = out->size;
  info.isa = plan.isa;
  info.kernel = plan.kernel;
  info.statistic = static_cast<int32_t>(plan.statistic);
  info.tile_queries = plan.tile_queries;
  info.block_keys = plan.block_keys;
  info.tiles_computed = plan.tiles_computed;
  info.tiles_partial = plan.tiles_partial;
  info.tiles_skipped = plan.tiles_skipped;
  info.allowed_scores = plan.allowed_scores;
  info.workspace_bytes = plan.workspace_bytes;
  info.result_bytes = plan.result_bytes;
  info.matrix_bytes = plan.matrix_bytes;
  const size_t known = out->size < sizeof info ? out->size : sizeof info;
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memset(bytes + known, 0, info.size - known);
  std::memcpy(bytes, &info, known);
}

// Scratch for one call, within the caller's limit. Who calls often, keeps one.
Tensor allocate_workspace(size_t bytes, const Context& context) {
  if (context.memory_limit >= 0 && bytes > static_cast<size_t>(context.memory_limit))
    throw Error(ErrorCode::memory_limit, "needs " + std::to_string(bytes) +
                                             " bytes of scratch; the limit is " +
                                             std::to_string(context.memory_limit));
  return Tensor(DType::u8, {static_cast<int64_t>(bytes)});
}

}  // namespace
}  // namespace rapt

extern "C" {

const char* rapt_version(void) { return rapt::version(); }

const char* rapt_build_info(void) { return rapt::build_info(); }

const char* rapt_last_error(void) { return rapt::last_error; }

const char* rapt_status_name(rapt_status status) {
  switch (status) {
    case RAPT_OK:
      return "ok";
    case RAPT_ERROR_SHAPE:
      return "shape";
    case RAPT_ERROR_DTYPE:
      return "dtype";
    case RAPT_ERROR_ARGUMENT:
      return "argument";
    case RAPT_ERROR_OVERLAP:
      return "overlap";
    case RAPT_ERROR_OVERFLOW:
      return "overflow";
    case RAPT_ERROR_UNKNOWN_NAME:
      return "unknown_name";
    case RAPT_ERROR_UNSUPPORTED:
      return "unsupported";
    case RAPT_ERROR_MEMORY_LIMIT:
      return "memory_limit";
    case RAPT_ERROR_FORMAT:
      return "format";
    case RAPT_ERROR_IO:
      return "io";
    case RAPT_ERROR_CANCELLED:
      return "cancelled";
    case RAPT_ERROR_OUT_OF_MEMORY:
      return "out_of_memory";
    case RAPT_ERROR_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

rapt_cancel_token* rapt_cancel_token_create(void) { return new (std::nothrow) rapt_cancel_token; }

void rapt_cancel_token_cancel(rapt_cancel_token* token) {
  if (token) token->token.cancel();
}

void rapt_cancel_token_destroy(rapt_cancel_token* token) { delete token; }

rapt_status rapt_plan(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                      const rapt_options* options, const rapt_context* context,
                      rapt_plan_info* plan) {
  using namespace rapt;
  return guarded([&] {
    check_size(plan);
    const TensorView q = view_of("query", query, Presence::required);
    const TensorView k = view_of("key", key, Presence::required);
    const TensorView v = view_of("value", value, Presence::required);
    const Options call_options(options);
    const CallContext call_context(context);
    write_plan(rapt::plan(q, k, v, call_options.get(), call_context.get()), plan);
  });
}

rapt_status rapt_attention_forward(const rapt_tensor* query, const rapt_tensor* key,
                                   const rapt_tensor* value, const rapt_options* options,
                                   const rapt_results* results, void* workspace,
                                   size_t workspace_bytes, const rapt_context* context) {
  using namespace rapt;
  return guarded([&] {
    const TensorView q = view_of("query", query, Presence::required);
    const TensorView k = view_of("key", key, Presence::required);
    const TensorView v = view_of("value", value, Presence::required);
    const Options call_options(options);
    const CallContext call_context(context);
    const rapt_results r = known_part(results);
    const AttentionOutputs outputs{{view_of("output", r.output, Presence::required),
                                    view_of("statistic", r.statistic, Presence::optional)},
                                   view_of("weights", r.weights, Presence::optional)};
    if (!workspace && workspace_bytes > 0)
      bad_argument("workspace is a null pointer of " + std::to_string(workspace_bytes) +
                   " bytes; expected memory, or 0 bytes to have it allocated");
    Tensor own;
    if (!workspace) {
      own =
          allocate_workspace(rapt::workspace_bytes(q, k, v, call_options.get(), call_context.get()),
                             call_context.get());
      workspace = own.data();
      workspace_bytes = static_cast<size_t>(own.count());
    }
    scaled_dot_product_attention(q, k, v, call_options.get(), outputs,
                                 {static_cast<std::byte*>(workspace), workspace_bytes},
                                 call_context.get());
  });
}

}  // extern "C"

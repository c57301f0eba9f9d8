#pragma once
// Converts the options and the context of a C call to those of a C++ call.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rapt/attention.h"
#include "rapt/catalogue.h"
#include "rapt/context.h"
#include "rapt/rapt_c.h"

namespace rapt::c_api {

// Whether lists of rows and heads are used in the caller's memory, or copied because they are used
// after the call that passed them.
enum class Lists : uint8_t { look, copy };

// The caller's options, and the objects that AttentionOptions points to.
class Options {
 public:
  // `given` may be null. Throws Error.
  Options(const rapt_options* given, Lists lists);
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  const AttentionOptions& get() const noexcept { return options_; }

 private:
  WeightsRequest weights_of(const rapt_weights_request* given, Lists lists);
  MapRequest map_of(const rapt_map_request* given, Lists lists);

  AttentionOptions options_;
  std::vector<std::unique_ptr<Mask>> masks_;
  std::vector<MadeScore> scores_;
  std::optional<MadeNormalizer> normalizer_;
  std::unique_ptr<Method> method_;
  std::optional<Rotary> rotary_;
  std::vector<int64_t> weights_heads_, weights_rows_, map_heads_;
};

// The options of a call without options.
const AttentionOptions& default_options();

class CallersExecutor final : public Executor {
 public:
  explicit CallersExecutor(const rapt_executor& table);
  int concurrency() const noexcept override { return table_.concurrency(table_.user); }
  void run(int64_t tasks, Task task, void* argument) override;

 private:
  const rapt_executor table_;
};

// The caller's context, and the executor that Context points to.
class CallContext {
 public:
  // `given` may be null. Throws Error.
  explicit CallContext(const rapt_context* given);
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  const Context& get() const noexcept { return context_; }

 private:
  Context context_;
  std::optional<CallersExecutor> executor_;
};

}  // namespace rapt::c_api

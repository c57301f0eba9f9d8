#pragma once
// The options and the context of a call in C, as those of a call in C++.
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

// Lists of rows and heads: looked at where they are, or copied, because they are to be used after
// the call that brought them.
enum class Lists : uint8_t { look, copy };

// The caller's options, with what AttentionOptions only points to.
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
  std::optional<Rotary> rotary_;
  std::vector<int64_t> weights_heads_, weights_rows_, map_heads_;
};

// Options of a call that has none.
const AttentionOptions& default_options();

class CallersExecutor final : public Executor {
 public:
  explicit CallersExecutor(const rapt_executor& table);
  int concurrency() const noexcept override { return table_.concurrency(table_.user); }
  void run(int64_t tasks, Task task, void* argument) override;

 private:
  const rapt_executor table_;
};

// The caller's context, with the executor that Context only points to.
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

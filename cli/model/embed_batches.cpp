#include "cli/model/embed_batches.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>

#include "cli/process/interrupt.h"
#include "rapt/thread_pool.h"

namespace rapt::cli {
namespace {

// About how many tokens a batch has: enough rows for the products, few enough for the caches.
constexpr int64_t kBatchTokens = 1024;

int embed_threads(const Context& context) {
  const int most = default_threads();
  return context.threads > 0 ? std::min(context.threads, most) : most;
}

struct EmbedBatch {
  size_t begin, end;  // in the order of lengths
};

class EmbedRun {
 public:
  EmbedRun(const EncoderFolder& folder, const model::Pooling& pooling,
           const std::vector<text::Encoding>& encodings, const Context& context)
      : folder_(folder),
        pooling_(pooling),
        encodings_(encodings),
        context_(context),
        threads_(embed_threads(context)),
        order_(encodings.size()),
        vectors_(DType::f32, {std::ssize(encodings), folder.encoder.spec.features}) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, {}, [&](size_t i) { return encodings[i].ids.size(); });
    cut_batches();
  }

  // Batches share nothing but weights, and their threads wait for no other; the products of few
  // batches are cut among the threads that are left.
  Tensor run() {
    const auto batches = static_cast<int>(std::min(std::ssize(batches_), std::ptrdiff_t{threads_}));
    context_.threads = std::max(1, threads_ / std::max(1, batches));
    const auto task = [](void* run, int64_t batch, int) noexcept {
      static_cast<EmbedRun*>(run)->embed(static_cast<size_t>(batch));
    };
    default_pool().run(std::ssize(batches_), task, this, batches);
    if (failure_) std::rethrow_exception(failure_);
    return std::move(vectors_);
  }

 private:
  // Cuts the texts into batches of about the same number of tokens; with more batches than threads,
  // a multiple of the threads is the goal (long texts make fewer).
  void cut_batches() {
    int64_t tokens = 0;
    for (const text::Encoding& encoding : encodings_) tokens += std::ssize(encoding.ids);
    int64_t count = std::max<int64_t>(1, (tokens + kBatchTokens - 1) / kBatchTokens);
    if (count > threads_) count = (count + threads_ - 1) / threads_ * threads_;
    int64_t before = 0;  // tokens of the texts before `end`
    for (size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      const int64_t limit = tokens * (std::ssize(batches_) + 1) / count;
      do before += std::ssize(encodings_[order_[end++]].ids);
      while (end < order_.size() && before < limit);
      batches_.push_back({begin, end});
    }
  }

  void embed(size_t batch) noexcept {
    try {
      stop_if_interrupted();
      embed_batch(batches_[batch]);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void embed_batch(EmbedBatch batch) {
    std::vector<int64_t> ids, types, starts = {0};
    for (size_t i = batch.begin; i < batch.end; ++i) {
      const text::Encoding& encoding = encodings_[order_[i]];
      ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
      types.insert(types.end(), encoding.types.begin(), encoding.types.end());
      starts.push_back(std::ssize(ids));
    }
    const Tensor rows = encode(folder_.encoder, {ids, types, starts}, context_);
    const Tensor pooled = pool(pooling_, rows.view(), starts);
    const int64_t features = folder_.encoder.spec.features;
    const float* from = pooled.values<float>().data();
    float* const vectors = vectors_.values<float>().data();
    for (size_t i = batch.begin; i < batch.end; ++i, from += features)
      std::copy_n(from, features, vectors + static_cast<int64_t>(order_[i]) * features);
  }

  const EncoderFolder& folder_;
  const model::Pooling& pooling_;
  const std::vector<text::Encoding>& encodings_;
  Context context_;  // of a batch
  int threads_;
  std::vector<size_t> order_;
  std::vector<EmbedBatch> batches_;
  Tensor vectors_;
  std::mutex mutex_;            // guards failure_
  std::exception_ptr failure_;  // the first
};

}  // namespace

Tensor embed_texts(const EncoderFolder& folder, const model::Pooling& pooling,
                   const std::vector<text::Encoding>& encodings, const Context& context) {
  return EmbedRun(folder, pooling, encodings, context).run();
}

double batch_bytes(const model::EncoderSpec& spec, double tokens, int64_t longest,
                   const Context& context) {
  const auto batch = static_cast<double>(kBatchTokens + longest);
  return 4 * encoder_row_elements(spec) * std::min(tokens, embed_threads(context) * batch);
}

}  // namespace rapt::cli

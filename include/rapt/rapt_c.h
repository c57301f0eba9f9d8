#pragma once
// The C interface of rapt: exact scaled dot-product attention for C99 and for every language that
// can call C. What the words mean is said in attention.h, tensor.h and mask/; in short, for f32,
// f64, bf16 or f16 tensors of one dtype
//
//   output = softmax(scale * query key^T + bias, masked) value
//
//   query  [..., q_len, head_dim]      head_dim >= 1
//   key    [..., k_len, head_dim]
//   value  [..., k_len, value_dim]
//   output [..., q_len, value_dim]
//
// where leading dimensions broadcast, and the heads of key and value may divide those of query.
//
// Descriptors. Every struct that may grow begins with its size: set it to sizeof of the struct as
// you know it, and all else that you do not use to zero:
//   rapt_tensor t = {.size = sizeof t};
// A library newer than the caller takes what the caller does not know as zero; one older than the
// caller takes a larger struct as long as what it does not know is zero, and otherwise answers
// RAPT_ERROR_UNSUPPORTED. Members named `reserved` are 0. Descriptors are read during the call
// only; nothing is kept, but what rapt_prepare() says.
//
// How they grow: new members come at the end, zero means "as before", and no member moves, changes
// its type or goes. There is no padding that the compiler adds, between members or after the last
// one, on 64-bit machines: it would be bytes that nobody sets where a later member may come to lie.
//
// Errors. Functions that can fail return a status, and rapt_last_error() then says in one sentence
// what was expected, what came and what to do. Everything is checked before an output is touched.
// No function prints, aborts, exits or throws.
//
// Threads. Every function may be called from any number of threads at once.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Values are fixed for ever; new ones are added before 100 or after the last.
typedef int32_t rapt_status;
enum {
  RAPT_OK = 0,
  RAPT_ERROR_SHAPE = 1,            // ranks, lengths or head counts do not fit together
  RAPT_ERROR_DTYPE = 2,            // an element type that this call does not take
  RAPT_ERROR_ARGUMENT = 3,         // a value out of range; a null pointer; a wrong size field
  RAPT_ERROR_OVERLAP = 4,          // an output shares memory with an input, or with itself
  RAPT_ERROR_OVERFLOW = 5,         // a size or an offset that does not fit into 64 bits
  RAPT_ERROR_UNKNOWN_NAME = 6,     // no mask, score, normaliser, tensor or parameter of that name
  RAPT_ERROR_UNSUPPORTED = 7,      // understood, but this machine or this build cannot do it
  RAPT_ERROR_MEMORY_LIMIT = 8,     // more memory than the context allows
  RAPT_ERROR_FORMAT = 9,           // a file that is not what it says it is
  RAPT_ERROR_IO = 10,              // the operating system refused to open, read or write
  RAPT_ERROR_CANCELLED = 11,       // the cancel token was set; outputs are unspecified
  RAPT_ERROR_EXECUTOR = 12,        // the caller's executor failed; outputs are unspecified
  RAPT_ERROR_OUT_OF_MEMORY = 100,  // the operating system gave no memory
  RAPT_ERROR_INTERNAL = 101        // a fault of rapt; please report it with the message
};

// 0 is none of them, so that a dtype that was forgotten is an error and not a wrong number.
typedef int32_t rapt_dtype;
enum {
  RAPT_F32 = 1,
  RAPT_F64 = 2,
  RAPT_BF16 = 3,
  RAPT_F16 = 4,
  RAPT_I64 = 5,
  RAPT_I32 = 6,
  RAPT_U8 = 7,
  RAPT_BOOL = 8  // one byte: 0 or 1
};

typedef int32_t rapt_device;  // where memory is
enum { RAPT_CPU = 0 };

// Memory that the caller owns, seen as a tensor; dimension 0 is the outermost.
typedef struct rapt_tensor {
  size_t size;             // sizeof(rapt_tensor)
  void* data;              // the element of index 0; may be NULL if there are no elements
  rapt_dtype dtype;        // RAPT_F32, ...
  rapt_device device;      // RAPT_CPU
  int32_t read_only;       // not 0: using this tensor as an output is an error
  int32_t rank;            // 0 to 32
  const int64_t* shape;    // [rank]
  const int64_t* strides;  // [rank], in elements; NULL: dense, row-major. 0 and negative: inputs
} rapt_tensor;

typedef struct rapt_named_tensor {  // what a spec calls a tensor; does not grow
  const char* name;
  const rapt_tensor* tensor;
} rapt_named_tensor;

// One of the catalogue: a mask (who may attend to whom), a score (what happens to the scaled
// product) or a normaliser (how scores become weights). `spec` is its name with its parameters, as
// on the command line:
//   "causal"  "causal(bottom-right)"  "causal(offset=3)"  "window(511, 0)"
//   "lengths(n)"  "boolean(allowed=m)"        with tensors named n (i64) and m (bool) below
//   "(causal | prefix(16)) & !documents(ids)" masks are combined by ! over & over |
//   "softcap(30)"
//   "softmax"
//   "rotary(theta=500000, interleaved)"
//   "relative(key_rows=k, value_rows=v)"      with tensors named k and v below
// Boolean: true = may attend. The headers in include/rapt/mask/, score/ and normalizer/ say what
// each means.
typedef struct rapt_variant {
  size_t size;  // sizeof(rapt_variant)
  const char* spec;
  size_t tensor_count;
  const rapt_named_tensor* tensors;  // [tensor_count], those that `spec` names
} rapt_variant;

// In what arithmetic the products are done. Where a set has tile registers (AMX, instruction sets
// "amx" and "amx_emulated"), they multiply bf16 as it is, and f32 and f16 as sums of bf16: f32 of
// three parts each, by six products, as accurate as FMA. f64 is multiplied by FMA.
typedef int32_t rapt_precision;
enum {
  RAPT_PRECISION_AUTOMATIC = 0,  // tile registers where there are some; else f32 and f16 by FMA,
                                 // bf16 by the 16-bit dot product where that is faster
  RAPT_PRECISION_FMA = 1,        // every dtype by FMA in f32 (f64: f64)
  RAPT_PRECISION_FAST = 2        // as automatic, but f32 and f16 of two parts each, by three
                                 // products, where tile registers multiply: of a product less
                                 // than 2^-14 is lost, usually some 2^-18
};

// Where the bias is added. Without a bias, or without scores, both are the same.
typedef int32_t rapt_bias_order;
enum {
  RAPT_BIAS_AFTER_SCORES = 0,  // softcap(scale qk) + bias
  RAPT_BIAS_BEFORE_SCORES = 1  // softcap(scale qk + bias)
};

// How the pairs of a cell of a map become one number.
typedef int32_t rapt_pool;
enum { RAPT_POOL_MEAN = 0, RAPT_POOL_MAX = 1, RAPT_POOL_SUM = 2 };

// What stands in the rows of a rapt_weights_request.
typedef int32_t rapt_weights_stage;
enum {
  RAPT_STAGE_WEIGHTS = 0,  // what the normaliser makes of the scores; 0 for excluded pairs
  RAPT_STAGE_SCORES = 1    // what it gets: after scale, scores and bias; -inf for excluded pairs
};

// Which weights to return: the rows [row_begin, row_end) or chosen ones, of all heads or of some.
typedef struct rapt_weights_request {
  size_t size;  // sizeof(rapt_weights_request)
  int64_t row_begin;
  int64_t row_end;  // 0: q_len
  size_t head_count;
  const int64_t* heads;  // [head_count], flat indices into the leading dimensions; 0 of them: all
  size_t row_count;
  const int64_t* rows;  // [row_count], in any order, instead of the range; 0 of them: the range
  rapt_weights_stage stage;  // RAPT_STAGE_WEIGHTS
  int32_t reserved;          // 0
} rapt_weights_request;

// The weights as a small map: cell (a, b) pools the rows [a q_len / rows, (a + 1) q_len / rows) and
// the keys [b k_len / columns, (b + 1) k_len / columns). Excluded pairs count as weight 0.
typedef struct rapt_map_request {
  size_t size;        // sizeof(rapt_map_request)
  int64_t rows;       // 1 to q_len
  int64_t columns;    // 1 to k_len
  rapt_pool pool;     // RAPT_POOL_MEAN: over all pairs of the cell
  int32_t reserved;   // 0
  size_t head_count;  // as in rapt_weights_request
  const int64_t* heads;
} rapt_map_request;

typedef struct rapt_options {  // how a call computes, and what it returns; 0: not asked for
  size_t size;                 // sizeof(rapt_options)
  const double* scale;         // any finite value; NULL: 1 / sqrt(head_dim)
  size_t mask_count;
  const rapt_variant* const* masks;     // [mask_count], combined by "and"
  const rapt_tensor* bias;              // [..., q_len or 1, k_len or 1], the query's dtype or f32,
                                        // added to the scores; -inf excludes. NULL: none
  const rapt_variant* normalizer;       // NULL: softmax
  const rapt_weights_request* weights;  // NULL: none are wanted
  size_t score_count;
  const rapt_variant* const* scores;  // [score_count], applied in this order
  rapt_dtype output_dtype;            // 0: the query's; RAPT_F32 is possible for bf16 and f16
  rapt_precision precision;           // RAPT_PRECISION_AUTOMATIC
  // Several sequences in one tensor, one after the other: sequence s has the queries
  // [query_starts[s], query_starts[s + 1]) and the keys [key_starts[s], key_starts[s + 1]), counted
  // by masks and in top_keys from its own start. Not with a bias, masks of tensors, weights, a map.
  const rapt_tensor* query_starts;  // [sequences + 1] i64; NULL: one sequence
  const rapt_tensor* key_starts;    // [sequences + 1] i64; NULL: the same as the queries'
  const rapt_map_request* map;      // NULL: none is wanted
  int64_t top_k;                    // per query the keys of the largest scores; 0: not wanted
  int32_t entropy;                  // not 0: per query the entropy of its weights, in nats
  int32_t received;                 // not 0: per key the sum of the weights it gets
  int32_t invariant;                // not 0: a row's bits do not depend on q_len and k_len, in
                                    // later versions neither; else calls with fewer than 1,024
                                    // pairs take FMA where longer ones take tile registers
  int32_t reserved;                 // 0
  double dropout;                   // of weights: the probability, in [0, 1), in steps of 2^-32
  uint64_t dropout_seed;            // a new one for every step of training
  const rapt_variant* rotary;  // "rotary(theta=500000, interleaved)": query and key turn by their
                               // positions; NULL: they do not
  const rapt_tensor* rotary_query_positions;  // i64 [q_len] or [batch ..., q_len]; NULL: counted
  const rapt_tensor* rotary_key_positions;    // i64 [k_len] or [batch ..., k_len]; NULL: counted
  int64_t rotary_query_start;                 // where counted positions of queries begin
  int64_t rotary_key_start;                   // the same of keys
  double cosine_epsilon;  // above 0: rows of query and key are divided by their lengths, at least
                          // by this, before all else (1e-12); 0: they are not
  // "relative(key_rows=k, value_rows=v)", with tensors named k and v: rows for each distance of a
  // key from a query, within the products (relative.h). Not beside rotary or cosine. NULL: none
  const rapt_variant* relative;
  rapt_bias_order bias_order;       // RAPT_BIAS_AFTER_SCORES
  int32_t rotary_keys_are_rotated;  // not 0: keys come turned, as a cache keeps them, and have
                                    // neither positions nor a start nor a step here
  int64_t rotary_query_step;        // from one counted position to the next; 0: 1
  int64_t rotary_key_step;          // the same of keys
} rapt_options;

// Where results go. Outputs must not overlap an input, each other or themselves. All but output and
// top_keys are f32, or f64 for f64; those behind `statistic` are present exactly when the options
// ask for them.
typedef struct rapt_results {
  size_t size;                   // sizeof(rapt_results)
  const rapt_tensor* output;     // [..., q_len, value_dim], the query's dtype or the output_dtype
  const rapt_tensor* statistic;  // [..., q_len]: the natural-log lse for softmax, -inf for a row
                                 // without keys. NULL: not wanted
  const rapt_tensor* weights;    // [..., rows, k_len]; chosen heads: [head_count, rows, k_len]
  const rapt_tensor* map;        // [..., rows, columns]; chosen heads: [head_count, rows, columns]
  const rapt_tensor* top_keys;   // [..., q_len, top_k] i64, largest weight first; -1: no more
  const rapt_tensor* top_weights;  // [..., q_len, top_k]; 0 where there is no key
  const rapt_tensor* entropy;      // [..., q_len]; 0 for a row without keys
  const rapt_tensor* received;     // [..., k_len]
} rapt_results;

// How the backward pass walks over the pairs. Both give the same bits.
typedef int32_t rapt_backward_passes;
enum {
  // Scratch of about 3 q_len head_dim numbers per head in flight; 4 with rotary or cosine, 6 with
  // biases of relative positions; gradients of their tables take more (backward.h).
  RAPT_BACKWARD_ONE_PASS = 0,
  RAPT_BACKWARD_TWO_PASSES = 1  // 1.4 times the work; scratch of one number per query
};

// What the forward pass left and what comes from behind it; read only.
typedef struct rapt_backward_inputs {
  size_t size;                     // sizeof(rapt_backward_inputs)
  const rapt_tensor* output;       // [..., q_len, value_dim] of rapt_attention_forward with the
                                   // same inputs and options
  const rapt_tensor* statistic;    // [..., q_len], the lse of that call
  const rapt_tensor* d_output;     // as output in shape and dtype
  const rapt_tensor* d_statistic;  // [..., q_len], f32 (f64 for f64): gradient of lse; NULL: 0
  const rapt_tensor* d_weights;    // as the weights of that call, which the options ask for, in
                                   // shape and dtype; NULL: 0
} rapt_backward_inputs;

// Which gradients are wanted, where they go, and how they are found. NULL: not wanted. They must
// not overlap an input, each other or themselves. Every element is written; nothing is added to
// what was there.
typedef struct rapt_gradients {
  size_t size;                 // sizeof(rapt_gradients)
  const rapt_tensor* d_query;  // the shape of query, its dtype or f32
  const rapt_tensor* d_key;    // the shape of key, the dtype of d_query
  const rapt_tensor* d_value;  // the shape of value, the dtype of d_query
  const rapt_tensor* d_bias;   // the shape of the bias; f32, or f64 for f64
  const rapt_tensor* d_scale;  // [] f64, also where the scale is the default one; beside
                               // query_rows of the options' relative in one pass only
  // [parameters] f64: of the options' scores, in their order; of each the real parameters and every
  // element of tensors with numbers per head, row-major (backward.h)
  const rapt_tensor* d_score_parameters;
  rapt_backward_passes passes;  // RAPT_BACKWARD_ONE_PASS
  int32_t reserved;             // 0
  // [parameters] f64: likewise of the options' normaliser
  const rapt_tensor* d_normalizer_parameters;
  // The shapes of the tensors of the options' relative; f32, or f64 for f64. In one pass only; all
  // those whose tensor there is, or none
  const rapt_tensor* d_key_rows;
  const rapt_tensor* d_query_rows;
  const rapt_tensor* d_value_rows;
  const rapt_tensor* d_content_bias;
  const rapt_tensor* d_position_bias;
} rapt_gradients;

// Stops a running call from another thread or from a signal handler.
typedef struct rapt_cancel_token rapt_cancel_token;
rapt_cancel_token* rapt_cancel_token_create(void);         // NULL: out of memory
void rapt_cancel_token_cancel(rapt_cancel_token* token);   // for good; NULL is allowed
void rapt_cancel_token_destroy(rapt_cancel_token* token);  // NULL is allowed

// Runs the tasks of a call on your own threads; results do not depend on it, bit for bit.
typedef void (*rapt_task)(void* argument, int64_t task, int worker);
typedef struct rapt_executor {
  size_t size;  // sizeof(rapt_executor)
  void* user;   // handed to both functions
  // How many tasks may run at once, at least 1; the same number during a call.
  int (*concurrency)(void* user);
  // Calls task(argument, t, worker) once for every t in [0, tasks), in any order, and returns 0
  // when all have returned. 0 <= worker < concurrency; two calls that overlap in time have
  // different workers. A call may run() several times, one after the other. If it cannot run them
  // all it returns another number, with no task running any more: the call then answers
  // RAPT_ERROR_EXECUTOR.
  int (*run)(void* user, int64_t tasks, rapt_task task, void* argument);
} rapt_executor;

// What a call may do to be fast. Both give the same bits.
typedef int32_t rapt_memory;
enum {
  // Where tile registers multiply, keys and values are packed once: at most 2 bytes for each number
  // of bf16, 6 of f32 and f16. rapt_plan says how many bytes that makes.
  RAPT_MEMORY_AUTOMATIC = 0,
  RAPT_MEMORY_LOW = 1  // they are packed some at a time, for some queries at a time
};

typedef struct rapt_context {     // who runs a call, stops it, is told, and how much memory it gets
  size_t size;                    // sizeof(rapt_context)
  const rapt_executor* executor;  // NULL: the library's own threads
  const rapt_cancel_token* cancel;  // NULL: cannot be stopped; checked per tile
  // Told as tasks end, 0 <= fraction <= 1, from whichever thread ended one, never from two at once.
  void (*progress)(void* user, double fraction);  // NULL: nobody is told
  void* progress_user;
  // Bytes that a call may allocate, which is its workspace if the caller gives none: outputs are
  // the caller's. 0: no limit.
  int64_t memory_limit;
  int32_t threads;  // of the library's own, the caller included; 0: as many as the machine gives to
                    // the process. Small problems take fewer. 1: the calling thread does all.
                    // Beside an executor: 0
  rapt_memory memory;  // RAPT_MEMORY_AUTOMATIC
} rapt_context;

// What the one number per row means.
enum { RAPT_STATISTIC_NONE = 0, RAPT_STATISTIC_LSE = 1, RAPT_STATISTIC_THRESHOLD = 2 };

// What a call would do and take.
typedef struct rapt_plan_info {
  size_t size;               // in: sizeof(rapt_plan_info); all else is written
  const char* isa;           // the instruction set, as lscpu spells it; static
  const char* kernel;        // the kernel class; static
  int32_t statistic;         // RAPT_STATISTIC_...
  int32_t threads;           // that will work on it, the caller included
  int64_t tile_queries;      // queries per tile
  int64_t block_keys;        // keys per tile
  int64_t tiles_computed;    // all pairs allowed
  int64_t tiles_partial;     // computed, some pairs excluded
  int64_t tiles_skipped;     // not computed
  int64_t allowed_scores;    // pairs (query, key) that the masks allow, all heads
  uint64_t workspace_bytes;  // scratch that rapt_attention_forward needs
  uint64_t result_bytes;     // of everything that the call returns
  uint64_t matrix_bytes;     // what the q_len x k_len matrices of all heads would take
} rapt_plan_info;

const char* rapt_version(void);     // "0.1.0"
const char* rapt_build_info(void);  // "0.1.0 (commit 1234abcd, g++ 12.2.0, Release)"

// "ok", "shape", "dtype", ...; "unknown" for a number that is no status.
const char* rapt_status_name(rapt_status status);

// Why the last failed call of this thread failed, "" if none did. Valid until the next one fails;
// cut after 1,023 bytes.
const char* rapt_last_error(void);

// Says what rapt_attention_forward would do. The data of query, key, value and bias may be NULL;
// all other tensors need theirs: masks' tensors and starts are read, positions where rows turn by
// caches, and numbers per head that have a range. `options` and `context` may be NULL.
// Errors: shape, dtype, argument, overflow, unknown_name, unsupported.
rapt_status rapt_plan(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                      const rapt_options* options, const rapt_context* context,
                      rapt_plan_info* plan);

// workspace_bytes of the plan alone, without counting tiles. Errors: those of rapt_plan.
rapt_status rapt_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                 const rapt_tensor* value, const rapt_options* options,
                                 const rapt_context* context, size_t* workspace_bytes);

// Computes attention into the caller's memory. `workspace`: plan.workspace_bytes or more, at any
// alignment, one call at a time; NULL with a size of 0: allocated inside, and freed. With a
// workspace only that allocates which is made anew from texts (rapt_prepare makes it once): masks,
// scores, a normaliser other than softmax, rotary and relative. `options` and `context` may be
// NULL. Errors: those of rapt_plan, overlap, memory_limit, cancelled, executor, out_of_memory.
rapt_status rapt_attention_forward(const rapt_tensor* query, const rapt_tensor* key,
                                   const rapt_tensor* value, const rapt_options* options,
                                   const rapt_results* results, void* workspace,
                                   size_t workspace_bytes, const rapt_context* context);

// Which pairs a call with this `dropout` and `dropout_seed` keeps (dropout.h): kept [..., q_len,
// k_len] RAPT_BOOL, of which the leading dimensions are those of the call's output; any strides.
// Errors: shape, dtype, argument, overflow, unsupported.
rapt_status rapt_dropout_mask(double dropout, uint64_t dropout_seed, const rapt_tensor* kept);

// Bytes of workspace that rapt_attention_backward takes for these gradients, of which the data may
// be NULL, as that of query, key and value. Errors: those of rapt_plan.
rapt_status rapt_backward_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                          const rapt_tensor* value, const rapt_options* options,
                                          const rapt_gradients* gradients,
                                          const rapt_context* context, size_t* workspace_bytes);

// Computes gradients into the caller's memory: of query, key, value, and, if wanted, of bias,
// scale, scores, normaliser and relative (backward.h). `options` are those of the forward call;
// what they ask to be returned is not computed again. `workspace`: rapt_backward_workspace_bytes or
// more, at any alignment; NULL with a size of 0: allocated inside, and freed. Errors: those of
// rapt_attention_forward.
rapt_status rapt_attention_backward(const rapt_tensor* query, const rapt_tensor* key,
                                    const rapt_tensor* value, const rapt_options* options,
                                    const rapt_backward_inputs* inputs,
                                    const rapt_gradients* gradients, void* workspace,
                                    size_t workspace_bytes, const rapt_context* context);

// Options and context, read once for many calls: who calls often reads no text of a mask again, and
// with a workspace allocates nothing. Lengths may change from call to call, as they do when a cache
// of keys grows.
//
// Copied: all descriptors, texts and lists of rows and heads. To stay where they are: the elements
// of all tensors of the options, as masks, bias, starts, positions and those that texts name (every
// call reads them anew, so they may change in between), the cancel token, and whatever `user`
// points to.
// One rapt_prepared serves any number of threads at once, each with a workspace of its own.
typedef struct rapt_prepared rapt_prepared;

// `options` and `context` may be NULL. *prepared is NULL after an error.
// Errors: shape, dtype, argument, overflow, unknown_name, unsupported, out_of_memory.
rapt_status rapt_prepare(const rapt_options* options, const rapt_context* context,
                         rapt_prepared** prepared);
void rapt_prepared_destroy(rapt_prepared* prepared);  // NULL is allowed; no call may be under way

// rapt_plan, rapt_workspace_bytes, rapt_attention_forward and its backward pass with what was
// prepared: the same results and errors.
rapt_status rapt_prepared_plan(const rapt_prepared* prepared, const rapt_tensor* query,
                               const rapt_tensor* key, const rapt_tensor* value,
                               rapt_plan_info* plan);
rapt_status rapt_prepared_workspace_bytes(const rapt_prepared* prepared, const rapt_tensor* query,
                                          const rapt_tensor* key, const rapt_tensor* value,
                                          size_t* workspace_bytes);
rapt_status rapt_prepared_forward(const rapt_prepared* prepared, const rapt_tensor* query,
                                  const rapt_tensor* key, const rapt_tensor* value,
                                  const rapt_results* results, void* workspace,
                                  size_t workspace_bytes);
rapt_status rapt_prepared_backward_workspace_bytes(const rapt_prepared* prepared,
                                                   const rapt_tensor* query, const rapt_tensor* key,
                                                   const rapt_tensor* value,
                                                   const rapt_gradients* gradients,
                                                   size_t* workspace_bytes);
rapt_status rapt_prepared_backward(const rapt_prepared* prepared, const rapt_tensor* query,
                                   const rapt_tensor* key, const rapt_tensor* value,
                                   const rapt_backward_inputs* inputs,
                                   const rapt_gradients* gradients, void* workspace,
                                   size_t workspace_bytes);

// An instruction set of this build.
typedef struct rapt_instruction_set {  // does not grow
  const char* name;                    // "scalar", "avx2", "avx512", "amx": as in RAPT_ISA; static
  int32_t available;                   // CPU and operating system support it
  int32_t chosen;                      // used: the highest available that RAPT_ISA allows
  const char* note;  // why the operating system refuses it, or that it is for tests; "": nothing is
                     // to be said; static
} rapt_instruction_set;

// Writes the first `room` sets, worst first, and how many there are into `count`; `sets` may be
// NULL when `room` is 0. Errors: argument; unknown_name and unsupported for what RAPT_ISA in the
// environment says.
rapt_status rapt_instruction_sets(rapt_instruction_set* sets, size_t room, size_t* count);

// The 16-bit dot product of the CPU, for bf16 (instruction_sets.h).
typedef struct rapt_bf16_dot_info {
  size_t size;        // in: sizeof(rapt_bf16_dot_info); all else is written
  int32_t available;  // CPU and system have it, and the chosen instruction set goes with it
  int32_t used;       // by RAPT_PRECISION_AUTOMATIC
  int32_t forced;     // RAPT_BF16 in the environment decided
  int32_t reserved;   // 0
  double speed;       // its operations per second over those of FMA; 0: not available
} rapt_bf16_dot_info;

// Measures for about 0.1 ms at the first call of the process.
// Errors: argument; unknown_name and unsupported for what RAPT_BF16 in the environment says.
rapt_status rapt_bf16_dot(rapt_bf16_dot_info* info);

#ifdef __cplusplus
}  // extern "C"
#endif

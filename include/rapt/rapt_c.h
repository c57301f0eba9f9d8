#pragma once
// The C interface of rapt: exact scaled dot-product attention, and approximations by name, for C99
// and for every language that can call C. attention.h, tensor.h, mask/ and method/ define the
// terms. In short, for f32, f64, bf16 or f16 tensors of one dtype
//
//   output = softmax(scale * query key^T + bias, masked) value
//
//   query  [..., q_len, head_dim]      head_dim >= 1
//   key    [..., k_len, head_dim]
//   value  [..., k_len, value_dim]
//   output [..., q_len, value_dim]
//
// where leading dimensions broadcast, and the number of heads of key and value may divide that of
// query.
//
// Descriptors. Every struct that may grow begins with its size. Set it to the sizeof of the struct
// in your header, and set all members that you do not use to zero:
//   rapt_tensor t = {.size = sizeof t};
// If the library is newer than the caller, it treats members that the caller's struct lacks as
// zero. If it is older, it accepts the larger struct as long as the members that it does not know
// are zero, and otherwise returns RAPT_ERROR_UNSUPPORTED. Members named `reserved` are 0.
// Descriptors are read during the call only. Nothing refers to them afterwards, except as
// rapt_prepare() states.
//
// How they grow: new members are added at the end, and zero means "as before". No member moves,
// changes its type or is removed. On 64-bit machines there is no padding by the compiler, between
// members or after the last one, because a later member could lie in bytes that nobody sets.
//
// Errors. Functions that can fail return a status, and rapt_last_error() then says in one sentence
// what was expected, what came and what to do. Everything is checked before an output is written.
// No function prints, aborts, exits or throws.
//
// Threads. Every function may be called from any number of threads at once.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Values never change; new ones are added before 100 or after the last.
typedef int32_t rapt_status;
enum {
  RAPT_OK = 0,
  RAPT_ERROR_SHAPE = 1,            // ranks, lengths or head counts do not fit together
  RAPT_ERROR_DTYPE = 2,            // an element type that this call does not accept
  RAPT_ERROR_ARGUMENT = 3,         // a value out of range; a null pointer; a wrong size field
  RAPT_ERROR_OVERLAP = 4,          // an output shares memory with an input, or with itself
  RAPT_ERROR_OVERFLOW = 5,         // a size or an offset that does not fit into 64 bits
  RAPT_ERROR_UNKNOWN_NAME = 6,     // no mask, score, normaliser, tensor or parameter of that name
  RAPT_ERROR_UNSUPPORTED = 7,      // valid, but this call, machine or build cannot do it
  RAPT_ERROR_MEMORY_LIMIT = 8,     // more memory than the context allows
  RAPT_ERROR_FORMAT = 9,           // a file whose contents do not match its format
  RAPT_ERROR_IO = 10,              // the operating system refused to open, read or write
  RAPT_ERROR_CANCELLED = 11,       // the cancel token was set; outputs are unspecified
  RAPT_ERROR_EXECUTOR = 12,        // the caller's executor failed; outputs are unspecified
  RAPT_ERROR_OUT_OF_MEMORY = 100,  // the operating system provided no memory
  RAPT_ERROR_INTERNAL = 101        // a bug in rapt; please report it with the message
};

// 0 is no dtype, so that a dtype that was not set is an error.
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

// A view of the caller's memory as a tensor; dimension 0 is the outermost.
typedef struct rapt_tensor {
  size_t size;             // sizeof(rapt_tensor)
  void* data;              // the element of index 0; may be NULL if there are no elements
  rapt_dtype dtype;        // RAPT_F32, ...
  rapt_device device;      // RAPT_CPU
  int32_t read_only;       // not 0: using this tensor as an output is an error
  int32_t rank;            // 0 to 32
  const int64_t* shape;    // [rank]
  const int64_t* strides;  // [rank], in elements; NULL: dense, row-major; <= 0: inputs only
} rapt_tensor;

typedef struct rapt_named_tensor {  // a tensor with its name in a spec; does not grow
  const char* name;
  const rapt_tensor* tensor;
} rapt_named_tensor;

// A variant of the catalogue: a mask (which query may attend to which key), a score (a function of
// the scaled product) or a normaliser (turns scores into weights). `spec` is its name with its
// parameters, as on the command line:
//   "causal"  "causal(bottom-right)"  "causal(offset=3)"  "window(511, 0)"
//   "lengths(n)"  "boolean(allowed=m)"        with tensors named n (i64) and m (bool) below
//   "(causal | prefix(16)) & !documents(ids)" masks are combined by !, & and |, in this order of
//                                             precedence
//   "softcap(30)"
//   "softmax"
//   "rotary(theta=500000, interleaved)"
//   "relative(key_rows=k, value_rows=v)"      with tensors named k and v below
// Boolean: true = may attend. For the meaning of each see the headers in include/rapt/mask/, score/
// and normalizer/.
typedef struct rapt_variant {
  size_t size;  // sizeof(rapt_variant)
  const char* spec;
  size_t tensor_count;
  const rapt_named_tensor* tensors;  // [tensor_count], the tensors that `spec` names
} rapt_variant;

// The arithmetic of the products. Where a set has tile registers (AMX, instruction sets "amx" and
// "amx_emulated"), they multiply bf16 directly, and f32 and f16 as sums of bf16: f32 as three parts
// each, by six products, as accurate as FMA. f64 is multiplied by FMA.
typedef int32_t rapt_precision;
enum {
  RAPT_PRECISION_AUTOMATIC = 0,  // tile registers if the set has them; else f32 and f16 by FMA,
                                 // bf16 by the 16-bit dot product where that is faster
  RAPT_PRECISION_FMA = 1,        // every dtype by FMA in f32 (f64: f64)
  RAPT_PRECISION_FAST = 2        // as automatic, but tile registers multiply f32 and f16 as two
                                 // parts each, by three products: a product loses less than 2^-14,
                                 // usually about 2^-18
};

// Where the bias is added. Without a bias, or without scores, both orders are the same.
typedef int32_t rapt_bias_order;
enum {
  RAPT_BIAS_AFTER_SCORES = 0,  // softcap(scale qk) + bias
  RAPT_BIAS_BEFORE_SCORES = 1  // softcap(scale qk + bias)
};

// How the pairs of a cell of a map are pooled into one number.
typedef int32_t rapt_pool;
enum { RAPT_POOL_MEAN = 0, RAPT_POOL_MAX = 1, RAPT_POOL_SUM = 2 };

// What the rows of a rapt_weights_request contain.
typedef int32_t rapt_weights_stage;
enum {
  RAPT_STAGE_WEIGHTS = 0,  // weights; 0 for masked pairs
  RAPT_STAGE_SCORES = 1    // scores, after scale, scores and bias; -inf for masked pairs
};

// Which weights to return: the rows [row_begin, row_end) or chosen ones, of all heads or of some.
typedef struct rapt_weights_request {
  size_t size;  // sizeof(rapt_weights_request)
  int64_t row_begin;
  int64_t row_end;  // 0: q_len
  size_t head_count;
  const int64_t* heads;  // [head_count], flat indices into the leading dimensions; none: all
  size_t row_count;
  const int64_t* rows;       // [row_count], in any order, instead of the range; none: the range
  rapt_weights_stage stage;  // RAPT_STAGE_WEIGHTS
  int32_t reserved;          // 0
} rapt_weights_request;

// The weights as a small map: cell (a, b) pools the rows [a q_len / rows, (a + 1) q_len / rows) and
// the keys [b k_len / columns, (b + 1) k_len / columns). Masked pairs count as weight 0.
typedef struct rapt_map_request {
  size_t size;        // sizeof(rapt_map_request)
  int64_t rows;       // 1 to q_len
  int64_t columns;    // 1 to k_len
  rapt_pool pool;     // RAPT_POOL_MEAN: over all pairs of the cell
  int32_t reserved;   // 0
  size_t head_count;  // as in rapt_weights_request
  const int64_t* heads;
} rapt_map_request;

typedef struct rapt_options {  // how a call computes, and what it returns; 0: not requested
  size_t size;                 // sizeof(rapt_options)
  const double* scale;         // any finite value; NULL: 1 / sqrt(head_dim)
  size_t mask_count;
  const rapt_variant* const* masks;     // [mask_count], combined by "and"
  const rapt_tensor* bias;              // [..., q_len or 1, k_len or 1], the query's dtype or f32,
                                        // added to the scores; -inf masks out. NULL: none
  const rapt_variant* normalizer;       // NULL: softmax
  const rapt_weights_request* weights;  // NULL: no weights are returned
  size_t score_count;
  const rapt_variant* const* scores;  // [score_count], applied in this order
  rapt_dtype output_dtype;            // 0: the query's; RAPT_F32 is possible for bf16 and f16
  rapt_precision precision;           // RAPT_PRECISION_AUTOMATIC
  // Several sequences in one tensor, one after the other: sequence s has the queries
  // [query_starts[s], query_starts[s + 1]) and the keys [key_starts[s], key_starts[s + 1]). Masks
  // and top_keys count positions from its start. Not with a bias, masks of tensors, weights, a map.
  const rapt_tensor* query_starts;  // [sequences + 1] i64; NULL: one sequence
  const rapt_tensor* key_starts;    // [sequences + 1] i64; NULL: the same as the queries'
  const rapt_map_request* map;      // NULL: no map is returned
  int64_t top_k;                    // per query the keys of the largest scores; 0: not requested
  int32_t entropy;                  // not 0: per query the entropy of its weights, in nats
  int32_t received;                 // not 0: per key the sum of its weights over the queries
  int32_t invariant;                // not 0: a row's bits do not depend on q_len and k_len, also
                                    // in later versions. 0: on sets with tile registers, calls
                                    // with fewer than 1,024 pairs use FMA
  int32_t reserved;                 // 0
  double dropout;                   // of weights: the probability, in [0, 1), in steps of 2^-32
  uint64_t dropout_seed;            // a new one for every step of training
  const rapt_variant* rotary;  // "rotary(theta=500000, interleaved)": rotates rows of query and
                               // key by their positions; NULL: none
  const rapt_tensor* rotary_query_positions;  // i64 [q_len] or [batch ..., q_len]; NULL: counted
  const rapt_tensor* rotary_key_positions;    // i64 [k_len] or [batch ..., k_len]; NULL: counted
  int64_t rotary_query_start;                 // the first counted position of the queries
  int64_t rotary_key_start;                   // the first counted position of the keys
  double cosine_epsilon;  // above 0: rows of query and key are first divided by their lengths, or
                          // by this if it is larger (usual: 1e-12); 0: no division
  // "relative(key_rows=k, value_rows=v)", with tensors named k and v: table rows for each distance
  // from a query to a key, within the products (relative.h). Not together with rotary or cosine.
  // NULL: none
  const rapt_variant* relative;
  rapt_bias_order bias_order;       // RAPT_BIAS_AFTER_SCORES
  int32_t rotary_keys_are_rotated;  // not 0: keys are already rotated, as in a cache; then their
                                    // positions, start and step must be unset
  int64_t rotary_query_step;        // from one counted position to the next; 0: 1
  int64_t rotary_key_step;          // the same for keys
  // Keys and values of several sequences lie in a cache (cached_keys.h); all i32 or i64.
  // rapt_cache_inputs() of rapt_cache_c.h fills them in
  const rapt_tensor* cache_lengths;      // [sequences]: keys of each; NULL: no cache
  const rapt_tensor* cache_block_table;  // [sequences, most pages of one]; NULL: one page each
  const rapt_tensor* cache_starts;       // [sequences]: the slot of key 0; NULL: 0
  int32_t add_received;     // not 0, with received: the sums are added to what results->received
                            // holds, for totals over many calls
  int32_t reserved_at_end;  // 0
  // "lsh(rounds=8)": how attention is computed when it is not computed exactly (methods.h).
  // Whatever the method does not accept is rejected. NULL: exactly
  const rapt_variant* method;
} rapt_options;

// The memory for results. Outputs must not overlap an input, each other or themselves; they may be
// columns of one matrix. All except output and top_keys are f32, or f64 for f64. Members after
// `statistic` must be given exactly if the options request them.
typedef struct rapt_results {
  size_t size;                   // sizeof(rapt_results)
  const rapt_tensor* output;     // [..., q_len, value_dim], the query's dtype or the output_dtype
  const rapt_tensor* statistic;  // [..., q_len]: the natural-log lse for softmax, -inf for a row
                                 // without keys. NULL: not returned
  const rapt_tensor* weights;    // [..., rows, k_len]; chosen heads: [head_count, rows, k_len]
  const rapt_tensor* map;        // [..., rows, columns]; chosen heads: [head_count, rows, columns]
  const rapt_tensor* top_keys;   // [..., q_len, top_k] i64, largest weight first; -1: no more
  const rapt_tensor* top_weights;  // [..., q_len, top_k]; 0 where there is no key
  const rapt_tensor* entropy;      // [..., q_len]; 0 for a row without keys
  const rapt_tensor* received;     // [..., k_len]; read, too, with add_received
} rapt_results;

// The number of passes of the backward pass over the pairs. Both choices give the same bits.
typedef int32_t rapt_backward_passes;
enum {
  // Scratch for each head at work: about 3 q_len head_dim numbers; 4 with rotary or cosine, 6 with
  // biases of relative positions. Gradients of tables of relative positions need more (backward.h).
  RAPT_BACKWARD_ONE_PASS = 0,
  RAPT_BACKWARD_TWO_PASSES = 1  // 1.4 times the work; scratch of one number per query
};

// The forward state and the gradients of its results; all are only read.
typedef struct rapt_backward_inputs {
  size_t size;                     // sizeof(rapt_backward_inputs)
  const rapt_tensor* output;       // [..., q_len, value_dim] of rapt_attention_forward with the
                                   // same inputs and options
  const rapt_tensor* statistic;    // [..., q_len], the lse of that call
  const rapt_tensor* d_output;     // as output in shape and dtype
  const rapt_tensor* d_statistic;  // [..., q_len], f32 (f64 for f64): gradient of lse; NULL: 0
  const rapt_tensor* d_weights;    // of the weights that the options request, with their shape
                                   // and dtype; NULL: 0
} rapt_backward_inputs;

// Which gradients are requested, their memory, and how they are computed. NULL: not requested. They
// must not overlap an input, each other or themselves; they may be columns of one matrix. Every
// element is overwritten, not added to.
typedef struct rapt_gradients {
  size_t size;                 // sizeof(rapt_gradients)
  const rapt_tensor* d_query;  // the shape of query, its dtype or f32
  const rapt_tensor* d_key;    // the shape of key, the dtype of d_query
  const rapt_tensor* d_value;  // the shape of value, the dtype of d_query
  const rapt_tensor* d_bias;   // the shape of the bias; f32, or f64 for f64
  const rapt_tensor* d_scale;  // [] f64, also if the scale is the default one; together with
                               // query_rows of the options' relative in one pass only
  // [parameters] f64, in the order of the options' scores: of each score its real parameters and
  // every element of tensors with numbers per head, row-major (backward.h)
  const rapt_tensor* d_score_parameters;
  rapt_backward_passes passes;  // RAPT_BACKWARD_ONE_PASS
  int32_t reserved;             // 0
  // [parameters] f64: the same for the options' normaliser
  const rapt_tensor* d_normalizer_parameters;
  // With the shapes of the tensors of the options' relative; f32, or f64 for f64. In one pass only.
  // Either one for each tensor that is given, or none
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

// Runs the tasks of a call on your own threads. The bits of results do not depend on it.
typedef void (*rapt_task)(void* argument, int64_t task, int worker);
typedef struct rapt_executor {
  size_t size;  // sizeof(rapt_executor)
  void* user;   // passed to both functions
  // The number of tasks that may run at once, at least 1; constant during a call.
  int (*concurrency)(void* user);
  // Calls task(argument, t, worker) once for every t in [0, tasks), in any order, and returns 0
  // when all have returned. 0 <= worker < concurrency; two calls that overlap in time have
  // different workers. A call may run() several times, one after the other. If it cannot run all
  // tasks, it returns another number, when no task is running any more. The call then returns
  // RAPT_ERROR_EXECUTOR.
  int (*run)(void* user, int64_t tasks, rapt_task task, void* argument);
} rapt_executor;

// How much memory a call may use for speed. Both choices give the same bits.
typedef int32_t rapt_memory;
enum {
  // Where tile registers multiply, keys and values are packed once: at most 2 bytes for each number
  // of bf16, 6 of f32 and f16. rapt_plan returns the number of bytes.
  RAPT_MEMORY_AUTOMATIC = 0,
  RAPT_MEMORY_LOW = 1  // they are packed block by block, once per work unit
};

typedef struct rapt_context {       // executor, cancellation, progress and memory of a call
  size_t size;                      // sizeof(rapt_context)
  const rapt_executor* executor;    // NULL: the library's own threads
  const rapt_cancel_token* cancel;  // NULL: cannot be stopped; checked per tile
  // Called when a task ends, 0 <= fraction <= 1, on the thread that ended it; never by two threads
  // at once.
  void (*progress)(void* user, double fraction);  // NULL: no progress reports
  void* progress_user;
  // The bytes that a call may allocate: its workspace, if the caller gives none. Outputs are always
  // the caller's. 0: no limit.
  int64_t memory_limit;
  int32_t threads;     // the most threads of the library, the caller included; 0: as many as the
                       // process may use. Small problems use fewer. 1: the calling thread only.
                       // Must be 0 if there is an executor
  rapt_memory memory;  // RAPT_MEMORY_AUTOMATIC
} rapt_context;

// What the one number per row means.
enum { RAPT_STATISTIC_NONE = 0, RAPT_STATISTIC_LSE = 1, RAPT_STATISTIC_THRESHOLD = 2 };

// What a call would do and need.
typedef struct rapt_plan_info {
  size_t size;               // in: sizeof(rapt_plan_info); all else is written
  const char* isa;           // the instruction set, as lscpu spells it; static
  const char* kernel;        // the kernel class; static
  int32_t statistic;         // RAPT_STATISTIC_...
  int32_t threads;           // the most that work on the call, the caller included
  int64_t tile_queries;      // queries per tile
  int64_t block_keys;        // keys per tile
  int64_t tiles_computed;    // all pairs allowed
  int64_t tiles_partial;     // computed, some pairs masked
  int64_t tiles_skipped;     // not computed
  int64_t allowed_scores;    // pairs (query, key) that the masks allow, all heads
  uint64_t workspace_bytes;  // scratch that rapt_attention_forward needs
  uint64_t result_bytes;     // of all results of the call
  uint64_t matrix_bytes;     // of the q_len x k_len matrices of all heads
  int64_t group_heads;       // heads with few queries that are computed as queries of one head; 1:
                             // every head by itself
  int64_t method_pairs;      // with a method: pairs whose scores it computes, at most. Without
                             // one, 0. Plans of methods have no tiles
} rapt_plan_info;

const char* rapt_version(void);     // "0.1.0"
const char* rapt_build_info(void);  // "0.1.0 (commit 1234abcd, g++ 12.2.0, Release)"

// "ok", "shape", "dtype", ...; "unknown" for a number that is no status.
const char* rapt_status_name(rapt_status status);

// The message of the last failed call of this thread, "" if none failed. Valid until the next call
// fails; cut after 1,023 bytes.
const char* rapt_last_error(void);

// The argument that the last failed call of this thread refused: a tensor, or a member of the
// options or of the request, by its name in rapt/attention.h and rapt/backward.h ("key", "rotary",
// "d_output"). "" if it was no single argument. Valid until the next call fails.
const char* rapt_last_error_argument(void);

// Says what rapt_attention_forward would do. Data pointers of query, key, value and bias may be
// NULL. All other tensors need data: a plan reads tensors of masks, starts, positions that index
// rotary caches, and numbers per head that have a range. `options` and `context` may be NULL.
// Errors: shape, dtype, argument, overflow, unknown_name, unsupported.
rapt_status rapt_plan(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                      const rapt_options* options, const rapt_context* context,
                      rapt_plan_info* plan);

// workspace_bytes of the plan alone, without counting tiles. Errors: those of rapt_plan.
rapt_status rapt_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                 const rapt_tensor* value, const rapt_options* options,
                                 const rapt_context* context, size_t* workspace_bytes);

// Computes attention into the caller's memory. `workspace`: plan.workspace_bytes or more, at any
// alignment, used by one call at a time; NULL with a size of 0: the call allocates and frees it.
// With a workspace, the call allocates only what it makes from texts: masks, scores, a normaliser
// other than softmax, a method, rotary and relative (rapt_prepare makes them once). `options` and
// `context` may be NULL. Errors: those of rapt_plan, overlap, memory_limit, cancelled, executor,
// out_of_memory.
rapt_status rapt_attention_forward(const rapt_tensor* query, const rapt_tensor* key,
                                   const rapt_tensor* value, const rapt_options* options,
                                   const rapt_results* results, void* workspace,
                                   size_t workspace_bytes, const rapt_context* context);

// Writes which pairs a call with this `dropout` and `dropout_seed` keeps (dropout.h): kept [...,
// q_len, k_len] RAPT_BOOL, with the leading dimensions of the call's output; any strides. Errors:
// shape, dtype, argument, overflow, unsupported.
rapt_status rapt_dropout_mask(double dropout, uint64_t dropout_seed, const rapt_tensor* kept);

// Bytes of workspace that rapt_attention_backward needs for these gradients. Data pointers of
// gradients, query, key and value may be NULL. Errors: those of rapt_plan.
rapt_status rapt_backward_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                          const rapt_tensor* value, const rapt_options* options,
                                          const rapt_gradients* gradients,
                                          const rapt_context* context, size_t* workspace_bytes);

// Computes gradients into the caller's memory: of query, key, value, and on request of bias, scale,
// scores, normaliser and relative (backward.h). `options` are those of the forward call; results
// that they request are not computed again. `workspace`: rapt_backward_workspace_bytes or more, at
// any alignment; NULL with a size of 0: the call allocates and frees it. Errors: those of
// rapt_attention_forward.
rapt_status rapt_attention_backward(const rapt_tensor* query, const rapt_tensor* key,
                                    const rapt_tensor* value, const rapt_options* options,
                                    const rapt_backward_inputs* inputs,
                                    const rapt_gradients* gradients, void* workspace,
                                    size_t workspace_bytes, const rapt_context* context);

// Options and context that are read once for many calls. Calls then parse no text again and, with a
// workspace, allocate nothing. Lengths may change from call to call, as they do when a cache of
// keys grows.
//
// rapt_prepare() copies all descriptors, texts and lists of rows and heads. These must stay valid:
// the elements of all tensors of the options, such as masks, bias, starts, positions and tensors
// that texts name (every call reads them again, so they may change in between), the cancel token,
// and whatever `user` points to.
// Any number of threads may use one rapt_prepared at once, each with a workspace of its own.
typedef struct rapt_prepared rapt_prepared;

// `options` and `context` may be NULL. *prepared is NULL after an error.
// Errors: shape, dtype, argument, overflow, unknown_name, unsupported, out_of_memory.
rapt_status rapt_prepare(const rapt_options* options, const rapt_context* context,
                         rapt_prepared** prepared);
void rapt_prepared_destroy(rapt_prepared* prepared);  // NULL is allowed; no call may be running

// rapt_plan, rapt_workspace_bytes, rapt_attention_forward and its backward pass with prepared
// options and context: the same results and errors.
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
  const char* note;  // why the operating system disables it, or that it is for tests; "": none;
                     // static
} rapt_instruction_set;

// Writes the first `room` sets, slowest first, to `sets`, and the number of all sets to `count`.
// `sets` may be NULL if `room` is 0. Errors: argument; unknown_name and unsupported for the value
// of RAPT_ISA in the environment.
rapt_status rapt_instruction_sets(rapt_instruction_set* sets, size_t room, size_t* count);

// The 16-bit dot product of the CPU, for bf16 (instruction_sets.h).
typedef struct rapt_bf16_dot_info {
  size_t size;        // in: sizeof(rapt_bf16_dot_info); all else is written
  int32_t available;  // CPU and system have it, and the chosen instruction set supports it
  int32_t used;       // by RAPT_PRECISION_AUTOMATIC
  int32_t forced;     // RAPT_BF16 in the environment decided
  int32_t reserved;   // 0
  double speed;       // its operations per second over those of FMA; 0: not available
} rapt_bf16_dot_info;

// Measures for about 0.1 ms at the first call of the process.
// Errors: argument; unknown_name and unsupported for the value of RAPT_BF16 in the environment.
rapt_status rapt_bf16_dot(rapt_bf16_dot_info* info);

#ifdef __cplusplus
}  // extern "C"
#endif

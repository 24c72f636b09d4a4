// attention_backward: validate ▶ D ▶ chunks of keys against blocks of queries ▶ round.
#include "kernels/backward.h"

#include <atomic>
#include <cmath>
#include <thread>

#include "attention/gradients.h"
#include "base/parallel.h"
#include "base/scratch.h"

namespace multihead {
namespace {

using kernels::BackwardChunk;
using kernels::BackwardProblem;
using kernels::Block;
using kernels::KeyRange;
using kernels::kKeyBlock;
using kernels::Sequence;

// As in plan.cc: below this many multiply-adds a second thread costs more than it brings.
constexpr double kWorkPerThread = 2e5;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// Which chunks of a head's keys have added to the dQ of which blocks of its queries. Every block is added to by ascending
// chunks; since chunks are handed out in ascending order, too, the one that is waited for is always under way.
class Turns {
 public:
  explicit Turns(Index blocks) : done_(std::make_unique<std::atomic<Index>[]>(static_cast<std::size_t>(blocks))) {}

  /// Until all keys before `key` have been added to the block. False when another thread has given up.
  bool wait(Index block, Index key) const {
    while (done_[static_cast<std::size_t>(block)].load(std::memory_order_acquire) < key) {
      if (failed_.load(std::memory_order_relaxed)) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void finish(Index block, Index key) { done_[static_cast<std::size_t>(block)].store(key, std::memory_order_release); }
  void give_up() { failed_.store(true, std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<Index>[]> done_;
  std::atomic<bool> failed_{false};
};

// One piece of work: some keys of one key/value head of one sequence.
struct Item {
  std::size_t sequence;
  Index kv_head;
  KeyRange keys;
};

class Backward {
 public:
  Backward(const BackwardProblem& problem, bool wants_slopes, bool wants_bias_total)
      : problem_(problem), attention_(problem.attention), lanes_(kernels::backward_lanes(problem.attention)) {
    kv_heads_ = attention_.num_heads / attention_.group;
    Index key_blocks = 0, blocks = 0;
    for (const Sequence& sequence : attention_.sequences) {
      first_key_block_.push_back(key_blocks);
      first_block_.push_back(blocks);
      key_blocks += ceil_div(sequence.key_len, kKeyBlock);
      blocks += kv_heads_ * blocks_of(sequence);
      pairs_ += static_cast<double>(sequence.query_len) * static_cast<double>(sequence.key_len);
    }
    first_key_block_.push_back(key_blocks);
    turns_ = std::make_unique<Turns>(blocks);
    const auto sums = static_cast<std::size_t>(key_blocks * attention_.num_heads);
    if (wants_slopes) distance_sums_.assign(sums, 0.0);
    if (wants_bias_total) gradient_sums_.assign(sums, 0.0);
    const double work = pairs_ * static_cast<double>(attention_.num_heads) *
                        static_cast<double>(3 * attention_.head_dim + 2 * attention_.value_dim);
    threads_ = threads_for(static_cast<Index>(std::clamp(work / kWorkPerThread, 1.0, 1e6)));
    choose_chunk();
  }

  void run() {
    compute_delta();
    for (const std::vector<Item>& items : phases()) {
      const auto count = static_cast<Index>(items.size());
      parallel_for(count, static_cast<int>(std::clamp<Index>(count, 1, threads_)), [&](Index n, int) {
        try {
          run_item(items[static_cast<std::size_t>(n)]);
        } catch (...) {
          turns_->give_up();
          throw;
        }
      });
    }
  }

  /// Sums over everything of one head, in a fixed order: -dS |position - key| over all pairs.
  double slope_gradient(Index head) const { return -total(distance_sums_, head, 0, attention_.sequences.size()); }

  /// Adds sums of dS over all pairs of a head and sequence, for a bias that is broadcast over queries and keys.
  void add_bias_totals() const {
    for (std::size_t s = 0; s < attention_.sequences.size() && !gradient_sums_.empty(); ++s) {
      for (Index head = 0; head < attention_.num_heads; ++head) {
        const auto& bias = problem_.bias_sums;
        bias.data[bias.offset(attention_.sequences[s].batch, head, 0, 0)] +=
            static_cast<float>(total(gradient_sums_, head, s, s + 1));
      }
    }
  }

  /// -sum_i exp(sink - lse_i) D_i of one head. exp(-inf) = 0 is selected: the lse may be -inf too.
  double sink_gradient(Index head) const {
    const double sink = static_cast<double>(attention_.sinks[head]);
    if (sink == -HUGE_VAL) return 0;
    double sum = 0;
    for (const Sequence& sequence : attention_.sequences) {
      for (Index i = sequence.query_begin; i < sequence.query_begin + sequence.query_len; ++i) {
        const double lse = static_cast<double>(problem_.lse.data[problem_.lse.offset(sequence.batch, head, i, 0)]);
        const double delta = static_cast<double>(problem_.delta.data[problem_.delta.offset(sequence.batch, head, i, 0)]);
        if (delta != 0) sum -= std::exp(sink - lse) * delta;
      }
    }
    return sum;
  }

 private:
  Index blocks_of(const Sequence& sequence) const { return ceil_div(sequence.query_len * attention_.group, lanes_); }

  Index items_of(Index chunk) const {
    Index items = 0;
    for (const Sequence& sequence : attention_.sequences) items += kv_heads_ * ceil_div(sequence.key_len, chunk);
    return items;
  }

  // Long chunks pack queries seldom; short ones give every thread work. The bits are the same: no sum depends on the chunk.
  void choose_chunk() {
    constexpr Index kMaxFloats = 128 * 1024;
    chunk_ = kernels::kKeyChunk;
    while (chunk_ > kKeyBlock && (chunk_ * (attention_.head_dim + attention_.value_dim) > kMaxFloats ||
                                  (threads_ > 1 && items_of(chunk_) < 4 * threads_))) {
      chunk_ /= 2;
    }
  }

  float* scratch() const { return thread_scratch(kernels::backward_floats(attention_, chunk_)); }

  void compute_delta() const {
    const Index heads = attention_.num_heads;
    parallel_for(static_cast<Index>(attention_.sequences.size()) * heads, threads_, [&](Index n, int) {
      kernels::backward_delta(problem_, attention_.sequences[static_cast<std::size_t>(n / heads)], n % heads, scratch());
    });
  }

  // Items that may run beside each other. Chunk by chunk over all heads, so that threads seldom wait for each other; the first
  // chunks are the longest under a causal mask. Heads or sequences whose bias gradients fall into one place take turns.
  std::vector<std::vector<Item>> phases() const {
    const auto& bias = problem_.bias_sums;
    const bool any = bias.data != nullptr;
    const bool heads_apart = any && bias.strides[1] == 0;
    const bool sequences_apart = any && (is_packed() ? bias.strides[2] == 0 && bias.strides[3] == 0 : bias.strides[0] == 0);
    const std::size_t sequences = attention_.sequences.size();
    std::vector<std::vector<Item>> phases;
    const std::size_t sequence_step = sequences_apart ? 1 : std::max<std::size_t>(sequences, 1);
    const Index head_step = heads_apart ? 1 : std::max<Index>(kv_heads_, 1);
    for (std::size_t s = 0; s < sequences; s += sequence_step) {
      for (Index head = 0; head < kv_heads_; head += head_step) {
        phases.push_back(items_between(s, s + sequence_step, head, head + head_step));
      }
    }
    return phases;
  }

  std::vector<Item> items_between(std::size_t first, std::size_t last, Index first_head, Index last_head) const {
    std::vector<Item> items;
    bool more = true;
    for (Index begin = 0; more; begin += chunk_) {
      more = false;
      for (std::size_t s = first; s < last; ++s) {
        const Index keys = attention_.sequences[s].key_len;
        if (begin >= keys) continue;
        more = true;
        for (Index head = first_head; head < last_head; ++head)
          items.push_back({s, head, {begin, std::min(begin + chunk_, keys)}});
      }
    }
    return items;
  }

  // Several sequences that share a batch entry.
  bool is_packed() const {
    const auto& all = attention_.sequences;
    return all.size() > 1 && all[0].batch == all[1].batch;
  }

  void run_item(const Item& item) {
    const Sequence& sequence = attention_.sequences[item.sequence];
    float* const workspace = scratch();
    BackwardChunk chunk{&sequence, item.kv_head, item.keys.begin, item.keys.end};
    // A chunk's slots lie together: [sequence's key blocks, heads], of which the group's are a part.
    std::vector<double> distances, sums;
    const auto room = [&](const std::vector<double>& all, std::vector<double>& own) {
      if (all.empty()) return static_cast<double*>(nullptr);
      own.assign(static_cast<std::size_t>(ceil_div(chunk.end - chunk.begin, kKeyBlock) * attention_.group), 0.0);
      return own.data();
    };
    chunk.distance_sums = room(distance_sums_, distances);
    chunk.gradient_sums = room(gradient_sums_, sums);
    kernels::backward_begin(problem_, chunk, workspace);
    const Index lanes = sequence.query_len * attention_.group, blocks = blocks_of(sequence);
    const Index first = first_block_[item.sequence] + item.kv_head * blocks;
    for (Index n = blocks - 1; n >= 0; --n) {  // downwards: under a causal mask the last queries see every chunk
      const Block block{&sequence, item.kv_head, n * lanes_, std::min(lanes, (n + 1) * lanes_)};
      const KeyRange visible = kernels::block_keys(attention_, block);
      const Index begin = visible.begin / kKeyBlock * kKeyBlock;
      if (visible.begin >= visible.end || begin >= chunk.end || visible.end <= chunk.begin) continue;
      if (begin < chunk.begin && !turns_->wait(first + n, chunk.begin)) return;
      kernels::backward_block(problem_, chunk, block, workspace);
      turns_->finish(first + n, chunk.end);
    }
    kernels::backward_end(problem_, chunk, workspace);
    keep(distances, item, distance_sums_);
    keep(sums, item, gradient_sums_);
  }

  void keep(const std::vector<double>& own, const Item& item, std::vector<double>& all) const {
    for (std::size_t n = 0; n < own.size(); ++n) {
      const Index block = static_cast<Index>(n) / attention_.group, of_group = static_cast<Index>(n) % attention_.group;
      const Index slot = first_key_block_[item.sequence] + item.keys.begin / kKeyBlock + block;
      all[static_cast<std::size_t>(slot * attention_.num_heads + item.kv_head * attention_.group + of_group)] = own[n];
    }
  }

  double total(const std::vector<double>& sums, Index head, std::size_t first, std::size_t last) const {
    double total = 0;
    for (Index slot = first_key_block_[first]; slot < first_key_block_[last]; ++slot) {
      total += sums[static_cast<std::size_t>(slot * attention_.num_heads + head)];
    }
    return total;
  }

  const BackwardProblem& problem_;
  const kernels::AttentionProblem& attention_;
  Index lanes_, kv_heads_ = 0, chunk_ = 0;
  int threads_ = 1;
  double pairs_ = 0;
  std::vector<Index> first_key_block_, first_block_;  // per sequence
  std::unique_ptr<Turns> turns_;
  std::vector<double> distance_sums_, gradient_sums_;  // [key blocks of all sequences, num_heads]
};

// f32 sums of a gradient: in its own memory where that is f32, else in a tensor of its shape.
class Sums {
 public:
  Sums(const std::optional<TensorView>& gradient, const kernels::Strided<void>& bound) : gradient_(gradient) {
    if (!gradient) return;
    if (gradient->dtype == DType::kF32) {
      clear(*gradient);
      strided_ = {static_cast<float*>(bound.data), DType::kF32, bound.strides};
    } else {
      own_ = Tensor(DType::kF32, gradient->shape);
      strided_ = broadcast_sums<float>(own_);
    }
  }
  const kernels::Strided<float>& strided() const { return strided_; }
  void write(double scale) const {
    if (!gradient_) return;
    if (gradient_->dtype != DType::kF32) return write_gradient(own_, scale, *gradient_);
    if (scale != 1) write_gradient(*gradient_, scale, *gradient_);
  }

 private:
  const std::optional<TensorView>& gradient_;
  Tensor own_;
  kernels::Strided<float> strided_;
};

template <typename Gradient>
void write_heads(const kernels::Strided<void>& bound, Index heads, const Gradient& gradient) {
  for (Index head = 0; head < heads && bound.data != nullptr; ++head) {
    static_cast<float*>(bound.data)[head * bound.strides[0]] = static_cast<float>(gradient(head));
  }
}

}  // namespace

void attention_backward(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value,
                        const ConstTensorView& output, const ConstTensorView& lse, const ConstTensorView& grad_output,
                        const AttentionGradients& gradients, const AttentionOptions& options) {
  constexpr const char* kFunction = "attention_backward";
  const AttentionArguments arguments{kFunction, query, key, &value, options};
  const ValidatedProblem call = validate(arguments);
  const Index heads = call.problem.num_heads;
  const Dims output_shape{call.batch, heads, call.query_len, call.problem.value_dim};
  BackwardProblem problem;
  problem.attention = call.problem;
  problem.output = validate_input(kFunction, "output", output, output_shape, {DType::kF32, DType::kF16, DType::kBF16});
  problem.grad_output =
      validate_input(kFunction, "grad_output", grad_output, output_shape, {DType::kF32, DType::kF16, DType::kBF16});
  const auto lse_rows = validate_input(kFunction, "lse", lse, {call.batch, heads, call.query_len}, {DType::kF32});
  problem.lse = {static_cast<const float*>(lse_rows.data), DType::kF32, lse_rows.strides};
  const BoundGradients bound = bind_gradients(kFunction, arguments, call, gradients, false);

  Tensor delta = Tensor::uninitialized(DType::kF32, {call.batch, heads, call.query_len});
  problem.delta = {delta.data<float>(), DType::kF32, {heads * call.query_len, call.query_len, 1, 0}};
  const Sums query_sums(gradients.query, bound.query), bias_sums(gradients.attention_bias, bound.bias);
  problem.query_sums = query_sums.strided();
  problem.bias_sums = bias_sums.strided();
  problem.grad_key = bound.key;
  problem.grad_value = bound.value;
  if (gradients.key) clear(*gradients.key);  // keys beyond a length
  if (gradients.value) clear(*gradients.value);

  const auto& bias = problem.bias_sums;
  const bool bias_total = bias.data != nullptr && bias.strides[2] == 0 && bias.strides[3] == 0;
  Backward backward(problem, bound.alibi_slopes.data != nullptr, bias_total);
  backward.run();
  backward.add_bias_totals();
  write_heads(bound.alibi_slopes, heads, [&](Index head) { return backward.slope_gradient(head); });
  write_heads(bound.sinks, heads, [&](Index head) { return backward.sink_gradient(head); });
  query_sums.write(call.problem.scale);
  bias_sums.write(1);
}

}  // namespace multihead

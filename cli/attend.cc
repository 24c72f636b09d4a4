// multihead attend: the op alone, on arrays.
#include <memory>

#include "arrays.h"
#include "command.h"
#include "compute.h"
#include "multihead/attention.h"
#include "options.h"

namespace multihead::cli {
namespace {

using Path = std::optional<std::filesystem::path>;

struct AttendOptions {
  Path query, key, value, mask, bias, key_lengths, alibi_slopes, sinks;
  bool causal = false, top_left = false;
  std::optional<Index> query_offset;
  std::optional<Window> window;
  std::optional<float> softcap, scale;
  ComputeOptions compute;
};

// The arrays of a call and the options that point into them.
struct Call {
  Array query, key, value;
  std::optional<Array> mask, bias;
  AttentionOptions options;
  bool batched = true;
};

OutputFiles files_of(const AttendOptions& options) {
  OutputFiles files = options.compute.files();
  const std::pair<const char*, const Path*> inputs[] = {{"query", &options.query},
                                                        {"key", &options.key},
                                                        {"value", &options.value},
                                                        {"mask", &options.mask},
                                                        {"bias", &options.bias},
                                                        {"key_lengths", &options.key_lengths},
                                                        {"alibi_slopes", &options.alibi_slopes},
                                                        {"sinks", &options.sinks}};
  for (const auto& [name, path] : inputs) {
    if (*path) files.add_input(name, **path);
  }
  return files;
}

void read_main_arrays(const AttendOptions& options, Call& call, Report& report) {
  call.query = read_array("query", *options.query);
  call.key = read_array("key", *options.key);
  call.value = read_array("value", *options.value);
  const DType dtype = common_dtype({&call.query, &call.key, &call.value}, options.compute.dtype);
  const int rank = call.query.tensor.rank();
  for (Array* array : {&call.query, &call.key, &call.value}) {
    add_fact(report, *array);
    if (array->tensor.rank() != rank) {
      throw InvalidArgument(array->label() + ": expected a batch axis in all of query, key and value or in none; got " +
                            to_string(array->tensor.shape()) + " beside query " + to_string(call.query.tensor.shape()));
    }
    call.batched = add_batch_axis(*array, 4, "heads, length, dim");
    convert_array(*array, dtype);
  }
}

void read_options(const AttendOptions& from, Call& call, Report& report) {
  AttentionOptions& to = call.options;
  to.causal = from.causal;
  to.top_left = from.top_left;
  if (from.query_offset) to.query_offsets = {*from.query_offset};
  to.window = from.window;
  to.softcap = from.softcap;
  to.scale = from.scale;
  if (from.mask) {
    call.mask = read_array("mask", *from.mask);
    add_fact(report, *call.mask);
    to.mask = call.mask->tensor.view();
  }
  if (from.bias) {
    call.bias = read_array("bias", *from.bias);
    add_fact(report, *call.bias);
    if (call.bias->tensor.dtype() == DType::kF64) convert_array(*call.bias, DType::kF32);
    to.attention_bias = call.bias->tensor.view();
  }
  if (from.key_lengths) to.key_lengths = list_of_integers(read_array("key_lengths", *from.key_lengths));
  if (from.alibi_slopes) to.alibi_slopes = list_of_reals(read_array("alibi_slopes", *from.alibi_slopes));
  if (from.sinks) to.sinks = list_of_reals(read_array("sinks", *from.sinks));
}

struct Wanted {
  bool probabilities, lse;
};

Results fused(const Call& call, const Wanted& wanted, const Dims& output_shape, const Dims& score_shape) {
  Results results;
  const Tensor &query = call.query.tensor, &key = call.key.tensor, &value = call.value.tensor;
  results.output = Tensor::uninitialized(query.dtype(), output_shape);
  results.lse = Tensor::uninitialized(DType::kF64, {score_shape[0], score_shape[1], score_shape[2]});
  attention(query, key, value, results.output, call.options, results.lse.view());
  if (wanted.probabilities) {
    results.probabilities = Tensor::uninitialized(DType::kF32, score_shape);
    attention_probabilities(query, key, results.lse, results.probabilities, call.options);
  }
  results.lse = wanted.lse ? Tensor::converted(results.lse, DType::kF32) : Tensor();
  return results;
}

Results reference(const Call& call, const Wanted& wanted, const Dims& output_shape, const Dims& score_shape) {
  Results results;
  std::optional<TensorView> lse, probabilities;
  results.output = Tensor::uninitialized(DType::kF64, output_shape);
  if (wanted.lse) lse = results.lse = Tensor(DType::kF64, {score_shape[0], score_shape[1], score_shape[2]});
  if (wanted.probabilities) probabilities = results.probabilities = Tensor::uninitialized(DType::kF64, score_shape);
  reference_attention(call.query.tensor, call.key.tensor, call.value.tensor, results.output, call.options, lse, probabilities);
  return results;
}

void attend(const AttendOptions& options) {
  const OutputFiles files = files_of(options);
  files.check();
  options.compute.machine.apply();
  Report report;
  report.set("command", "attend");
  Call call;
  read_main_arrays(options, call, report);
  read_options(options, call, report);

  const Dims &q = call.query.tensor.shape(), &k = call.key.tensor.shape();
  const Dims output_shape{q[0], q[1], q[2], call.value.tensor.shape()[3]}, score_shape{q[0], q[1], q[2], k[2]};
  const Wanted wanted{options.compute.probabilities.has_value(), options.compute.lse.has_value()};
  const double size = options.compute.reference || options.compute.compare ? 12 : 4;  // f64 beside f32
  if (wanted.probabilities) require_memory(size * static_cast<double>(score_shape.product()), "the probabilities");
  Problem problem;
  problem.batched = call.batched;
  problem.score_shape = score_shape;
  problem.fused = [&] { return fused(call, wanted, output_shape, score_shape); };
  problem.reference = [&] { return reference(call, wanted, output_shape, score_shape); };
  problem.explain_fused = [&](Report& to) {
    const AttentionPlan how = plan(call.query.tensor, call.key.tensor, call.value.tensor, call.options);
    to.add("kernel", how.kernel + ": " + how.reason, how.kernel);
  };
  compute(problem, options.compute, files, report);
}

}  // namespace

void add_attend(CLI::App& app) {
  auto* command = app.add_subcommand("attend", "Scaled dot-product attention over arrays, without projections");
  auto options = std::make_shared<AttendOptions>();
  const std::string arrays = "Arrays (.npy)", visibility = "What a query may see (all of it together)", scores = "Scores";
  add_path(*command, "--query", options->query, "[batch, heads, queries, head_dim]; the batch axis may be missing")
      ->required()
      ->group(arrays);
  add_path(*command, "--key", options->key,
           "[batch, kv_heads, keys, head_dim]; query head h reads kv head h / (heads / kv_heads)")
      ->required()
      ->group(arrays);
  add_path(*command, "--value", options->value, "[batch, kv_heads, keys, value_dim]")->required()->group(arrays);
  command->add_flag("--causal", options->causal, "query i, at position offset + i, sees keys up to that position")
      ->group(visibility);
  auto* offset = add_integer(*command, "--query-offset", options->query_offset,
                             "position of the first query; without it the last query stands at the last key",
                             {std::numeric_limits<Index>::min()});
  offset->group(visibility);
  command->add_flag("--top-left", options->top_left, "the first query stands at the first key")
      ->group(visibility)
      ->excludes(offset);
  add_window(*command, "--window", options->window,
             "distances to the left and right of the query's position, both ends included")
      ->group(visibility);
  add_path(*command, "--key-lengths", options->key_lengths, "valid keys per batch entry, integers, [batch]")->group(visibility);
  add_path(*command, "--mask", options->mask,
           "bool or u8, true = may attend; [keys], [queries, keys] or rank 4 with explicit 1s")
      ->group(visibility);
  add_path(*command, "--bias", options->bias, "added to the scores, ranks as --mask; -inf = not visible")->group(scores);
  add_real(*command, "--scale", options->scale, "factor on the dot products; default 1 / sqrt(head_dim)")->group(scores);
  add_real(*command, "--softcap", options->softcap, "scores become C * tanh(score / C), before the bias")->group(scores);
  add_path(*command, "--alibi-slopes", options->alibi_slopes, "[heads]: adds -slope * |query position - key|")->group(scores);
  add_path(*command, "--sinks", options->sinks, "[heads]: a logit in the softmax denominator only")->group(scores);
  add_compute_options(*command, options->compute);
  command->get_option("--output")->required();
  command->footer(
      "A row that sees no key gives output 0 and lse -inf.\n"
      "Example:\n  multihead attend --query q.npy --key k.npy --value v.npy --causal --window 255, --output o.npy --compare");
  command->callback([options] { attend(*options); });
}

}  // namespace multihead::cli

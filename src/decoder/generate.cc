#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/message.h"
#include "decoder/random.h"
#include "multihead/decoder.h"

namespace multihead {
namespace {

// exp((logit - largest) / temperature) of every token: probabilities up to a factor.
std::vector<double> weights_of(const ConstTensorView& logits, double largest, double temperature) {
  std::vector<double> weights(static_cast<std::size_t>(logits.shape[0]));
  for (std::size_t id = 0; id < weights.size(); ++id)
    weights[id] = std::exp((static_cast<double>(logits.as<float>()[id]) - largest) / temperature);
  return weights;
}

// The tokens that may be drawn, likeliest first, lower ids first among equals.
std::vector<std::size_t> nucleus(const std::vector<double>& weights, double top_p) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  const double wanted = top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || sum < wanted)) sum += weights[order[count++]];
  order.resize(count);
  return order;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), state_(options.seed) {
  require(std::isfinite(options.temperature) && options.temperature >= 0,
          "Sampler: temperature: expected a finite number from 0; got ", options.temperature);
  require(options.top_p > 0 && options.top_p <= 1, "Sampler: top_p: expected a number above 0, at most 1; got ", options.top_p);
}

Index Sampler::draw(const ConstTensorView& logits) {
  require(logits.rank() == 1 && logits.dtype == DType::kF32 && logits.is_contiguous() && logits.shape[0] > 0,
          "Sampler::draw: expected logits [vocab_size], dense f32; got ", logits.shape, " ", name_of(logits.dtype));
  const float* numbers = logits.as<float>();
  const Index count = logits.shape[0];
  require(std::none_of(numbers, numbers + count, [](float x) { return std::isnan(x); }),
          "Sampler::draw: expected numbers; got a NaN among the logits");
  const float* largest = std::max_element(numbers, numbers + count);  // the first one
  if (options_.temperature == 0) return largest - numbers;
  require(std::isfinite(*largest), "Sampler::draw: expected a finite largest logit; got ", *largest);

  const std::vector<double> weights = weights_of(logits, static_cast<double>(*largest), options_.temperature);
  const std::vector<std::size_t> tokens = nucleus(weights, options_.top_p);
  double sum = 0;
  for (const std::size_t id : tokens) sum += weights[id];
  double left = decoder::uniform(state_) * sum;
  for (const std::size_t id : tokens) {
    left -= weights[id];
    if (left < 0) return static_cast<Index>(id);
  }
  return static_cast<Index>(tokens.back());  // rounding of the subtractions
}

Generated generate(const Decoder& decoder, const std::vector<Index>& prompt, const GenerateOptions& options) {
  const DecoderConfig& config = decoder.config();
  require(!prompt.empty(), "generate: expected a prompt of at least one token");
  require(options.tokens >= 0, "generate: tokens: expected 0 or more; got ", options.tokens);
  const auto prompt_length = static_cast<Index>(prompt.size());
  require(config.max_positions == 0 || prompt_length + options.tokens <= config.max_positions,
          "generate: expected at most the ", config.max_positions,
          " positions that the model was trained for; got a prompt of ", prompt_length, " and ", options.tokens,
          " more tokens");
  Sampler sampler(options.sampling);
  DecoderCache cache = decoder.make_cache(1, prompt_length + options.tokens);
  Generated result{prompt, decoder.forward(ConstTensorView(prompt.data(), {1, prompt_length}), cache)};
  for (Index n = 0; n < options.tokens; ++n) {
    const Index id = sampler.draw(ConstTensorView(result.next_logits.data<float>(), {config.vocab_size}));
    if (std::find(config.end_ids.begin(), config.end_ids.end(), id) != config.end_ids.end()) break;
    result.ids.push_back(id);
    result.next_logits = decoder.forward(ConstTensorView(&id, {1, 1}), cache);
    if (options.on_token && !options.on_token(id)) break;
  }
  result.next_logits = std::move(result.next_logits).reshaped({config.vocab_size});
  return result;
}

}  // namespace multihead

// describe: the layer's data flow as numbers.
#include <algorithm>
#include <cmath>

#include "base/message.h"
#include "multihead/layer.h"

namespace multihead {
namespace {

// sum over i = 0 … count - 1 of clamp(first + i, 0, limit), in closed form: lengths of a trillion are legal to ask about.
double clamped_sum(double first, double count, double limit) {
  const double below = std::clamp(-first, 0.0, count);             // terms that are 0
  const double reached = std::clamp(limit - first, below, count);  // from here on terms are `limit`
  const double rising = reached - below;
  return rising * (first + below) + rising * (rising - 1) / 2 + (count - reached) * limit;
}

// Pairs (query, key) of one head that causality and the window leave, with the last query at the last key.
double visible_pairs(const LayerConfig& config, Index query_len, Index key_len) {
  const auto queries = static_cast<double>(query_len), keys = static_cast<double>(key_len);
  const double first = keys - queries;
  const Window window = config.window.value_or(Window{});
  double end = queries * keys, begin = 0;
  const double right = config.causal ? 0.0 : static_cast<double>(window.right.value_or(0));
  if (config.causal || window.right) end = clamped_sum(first + right + 1, queries, keys);
  if (window.left) begin = clamped_sum(first - static_cast<double>(*window.left), queries, keys);
  return end - begin;
}

std::string visibility_of(const LayerConfig& config) {
  std::string text;
  if (config.causal) text += ", keys <= query";
  if (config.window && config.window->left) text += concat(", keys >= query - ", *config.window->left);
  if (config.window && config.window->right) text += concat(", keys <= query + ", *config.window->right);
  return text;
}

class Description {
 public:
  Description(const LayerConfig& config, Index query_len, Index key_len, bool with_bias) : with_bias_(with_bias) {
    result_.config = config;
    result_.query_len = query_len;
    result_.key_len = key_len;
  }

  void stored(const char* name, const std::string& equation, const Dims& shape) { add(name, equation, shape, true, 0, 0); }
  void not_stored(const char* name, const std::string& equation, const Dims& shape, double operations = 0) {
    add(name, equation, shape, false, 0, operations);
  }
  // y = x W, [length, in] -> [length, out]
  void projection(const char* name, const char* equation, Index length, Index in, Index out) {
    const Index parameters = in * out + (with_bias_ ? out : 0);
    add(name, concat(equation, with_bias_ ? " + b" : ""), {length, out}, true, parameters,
        2.0 * static_cast<double>(length) * static_cast<double>(in) * static_cast<double>(out));
  }
  LayerDescription finish() && {
    for (const LayerStep& step : result_.steps) {
      result_.parameters += step.parameters;
      result_.operations += step.operations;
    }
    return std::move(result_);
  }
  LayerDescription& result() { return result_; }

 private:
  void add(const char* name, const std::string& equation, const Dims& shape, bool stored, Index parameters, double operations) {
    double bytes = 4;
    for (const Index extent : shape) bytes *= static_cast<double>(extent);
    result_.steps.push_back({name, equation, shape, parameters, operations, bytes, stored});
  }

  bool with_bias_;
  LayerDescription result_;
};

}  // namespace

LayerDescription describe(const LayerConfig& config, Index query_len, Index key_len, bool with_bias) {
  require(query_len >= 0 && key_len >= 0, "describe: expected lengths of 0 or more; got query_len ", query_len, " and key_len ",
          key_len);
  const LayerConfig c = config.resolved();
  const Index n = query_len, m = key_len, h = c.num_heads, g = c.num_kv_heads;
  Description d(c, n, m, with_bias);
  const double pairs = static_cast<double>(h) * visible_pairs(c, n, m);

  d.stored("input", "X", {n, c.model_dim});
  d.projection("query projection", "Q = X W_Q", n, c.model_dim, h * c.head_dim);
  d.projection("key projection", "K = X' W_K", m, c.key_input_dim, g * c.head_dim);
  d.projection("value projection", "V = X' W_V", m, c.value_input_dim, g * c.value_dim);
  d.not_stored("query split", "Q by heads", {n, h, c.head_dim});
  d.not_stored("key split", "K by heads", {m, g, c.head_dim});
  d.not_stored("value split", "V by heads", {m, g, c.value_dim});
  d.not_stored("query heads", "Q_1 … Q_h", {h, n, c.head_dim});
  d.not_stored("key heads", "K_1 … K_h", {g, m, c.head_dim});
  d.not_stored("value heads", "V_1 … V_h", {g, m, c.value_dim});
  if (c.query_key_norm) d.not_stored("query and key norm", "Q_i = norm(Q_i), K_i = norm(K_i), in place", {h, n, c.head_dim});
  if (c.rotary) d.not_stored("rotary positions", "Q_i and K_i turned by position, in place", {h, n, c.head_dim});
  const std::string scale = c.scale ? concat(" * ", *c.scale) : concat(" / sqrt(", c.head_dim, ")");
  d.not_stored("scores", "S_i = Q_i K_i^T" + scale + visibility_of(c), {h, n, m}, 2 * pairs * static_cast<double>(c.head_dim));
  d.not_stored("probabilities", "P_i = softmax(S_i)", {h, n, m});
  d.result().bytes_not_stored = d.result().steps.back().bytes;
  d.not_stored("head outputs", "O_i = P_i V_i, written into the concatenation", {h, n, c.value_dim},
               2 * pairs * static_cast<double>(c.value_dim));
  d.stored("concatenation", "Concat(O_1, …, O_h)", {n, h * c.value_dim});
  d.projection("output projection", "Y = Concat(O_1, …, O_h) W_O", n, h * c.value_dim, c.output_dim);
  return std::move(d).finish();
}

}  // namespace multihead

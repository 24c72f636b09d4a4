// GET /api/describe: the Flow room's numbers.
#include "lab/server/lab_api.h"
#include "multihead/error.h"

namespace multihead::lab {
namespace {

// describe() counts in closed form, so these bound nothing but the length of the numbers on the page.
constexpr Index kMaxDim = 1'000'000, kMaxHeads = 10'000, kMaxLen = 1'000'000'000;

bool flag(const Request& request, const std::string& name, bool otherwise) {
  const std::string text = request.parameter(name, otherwise ? "1" : "0");
  if (text != "0" && text != "1") throw InvalidArgument(name + ": expected 0 or 1; got '" + text + "'");
  return text == "1";
}

Json steps_json(const LayerDescription& description) {
  Json steps = Json::array();
  for (const LayerStep& step : description.steps) {
    steps.push_back({{"name", step.name},
                     {"equation", step.equation},
                     {"shape", std::vector<Index>(step.shape.begin(), step.shape.end())},
                     {"parameters", step.parameters},
                     {"operations", step.operations},
                     {"bytes", step.bytes},
                     {"stored", step.stored}});
  }
  return steps;
}

}  // namespace

Response describe_api(const Request& request) {
  LayerConfig config;
  Index length = 128;
  if (const std::string name = request.parameter("preset"); !name.empty()) {
    const Preset preset = find_preset(name);
    config = preset.config;
    length = preset.default_length;
  }
  config.model_dim = integer_parameter(request, "model_dim", config.model_dim == 0 ? 512 : config.model_dim, 1, kMaxDim);
  config.num_heads = integer_parameter(request, "num_heads", config.num_heads, 1, kMaxHeads);
  config.num_kv_heads = integer_parameter(request, "num_kv_heads", config.num_kv_heads, 0, kMaxHeads);
  config.head_dim = integer_parameter(request, "head_dim", config.head_dim, 0, kMaxDim);
  config.value_dim = integer_parameter(request, "value_dim", config.value_dim, 0, kMaxDim);
  config.causal = flag(request, "causal", config.causal);
  if (!flag(request, "rotary", config.rotary.has_value())) {
    config.rotary.reset();
  } else if (!config.rotary) {
    config.rotary.emplace();
  }
  const Index query_len = integer_parameter(request, "query_len", length, 0, kMaxLen);
  const Index key_len = integer_parameter(request, "key_len", query_len, 0, kMaxLen);
  const bool bias = flag(request, "bias", false);
  LayerDescription description;
  try {
    description = describe(config, query_len, key_len, bias);
  } catch (const InvalidArgument& error) {
    if (request.parameter("refusals") != "answer") throw;
    return json_response({{"refused", error.what()}});
  }
  const LayerConfig& c = description.config;
  return json_response({{"config",
                         {{"model_dim", c.model_dim},
                          {"num_heads", c.num_heads},
                          {"num_kv_heads", c.num_kv_heads},
                          {"head_dim", c.head_dim},
                          {"value_dim", c.value_dim},
                          {"causal", c.causal},
                          {"rotary", c.rotary.has_value()}}},
                        {"query_len", description.query_len},
                        {"key_len", description.key_len},
                        {"steps", steps_json(description)},
                        {"parameters", description.parameters},
                        {"operations", description.operations},
                        {"bytes_not_stored", description.bytes_not_stored}});
}

}  // namespace multihead::lab

// Encoders with separate query, key and value, learned positions added before the first layer, every key visible.
#include "checkpoint/measure.h"

namespace multihead::checkpoint {
namespace {

Naming bert_naming(const std::string& block, bool cross) {
  return {.block = block,
          .cross = cross,
          .query = module("self.query"),
          .key = module("self.key"),
          .value = module("self.value"),
          .output = module("output.dense"),
          .others = {"output.LayerNorm.weight", "output.LayerNorm.bias", "output.LayerNorm.gamma", "output.LayerNorm.beta"}};
}

BlockPlan configure_bert(const Context& context) {
  BlockPlan plan = measure(context);
  plan.config.causal = !plan.cross && context.config.flag({"is_decoder"}).value_or(false);
  return plan;
}

BlockPlan configure_distilbert(const Context& context) { return measure(context); }

// One group of weights serves num_hidden_layers / num_hidden_groups consecutive layers.
BlockPlan configure_albert(const Context& context) {
  BlockPlan plan = measure(context);
  const Index layers = context.config.need_count({"num_hidden_layers"});
  const Index groups = context.config.count({"num_hidden_groups"}).value_or(1);
  const Index inner = context.config.count({"inner_group_num"}).value_or(1);
  if (inner != 1) fail("config.json: inner_group_num: expected 1; got ", inner);
  if (layers % groups != 0) fail("config.json: num_hidden_layers: expected a multiple of ", groups, " groups; got ", layers);
  constexpr Index kMaxUses = 10000;  // each is an entry of the list of layers: a number in a file must not fill the memory
  if (layers > kMaxUses) fail("config.json: num_hidden_layers: expected at most ", kMaxUses, "; got ", layers);
  plan.uses = layers / groups;
  return plan;
}

}  // namespace

std::vector<Family> bert_families() {
  const Naming distilbert{.block = "layer.#.attention",
                          .query = module("q_lin"),
                          .key = module("k_lin"),
                          .value = module("v_lin"),
                          .output = module("out_lin")};
  const Naming albert{.block = "albert_layer_groups.#.albert_layers.#.attention",
                      .query = module("query"),
                      .key = module("key"),
                      .value = module("value"),
                      .output = module("dense"),
                      .others = {"LayerNorm.weight", "LayerNorm.bias"}};
  return {
      {"bert",
       {"bert", "roberta", "roberta-prelayernorm", "xlm-roberta", "camembert", "electra", "ernie", "bert-generation"},
       {bert_naming("layer.#.attention", false), bert_naming("layer.#.crossattention", true)},
       configure_bert},
      {"distilbert", {"distilbert"}, {distilbert}, configure_distilbert},
      {"albert", {"albert"}, {albert}, configure_albert},
  };
}

}  // namespace multihead::checkpoint

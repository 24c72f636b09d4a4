// T5: no 1/sqrt(head_dim), a bucketed relative bias whose table the first block of each stack holds for all of them (UMT5:
// every block its own), none in cross attention. The table has a column a head, so that these layers need no config.json.
#include "checkpoint/measure.h"

namespace multihead::checkpoint {
namespace {

const char* const kTable = "relative_attention_bias.weight";

Naming t5_naming(const std::string& block, bool causal, bool cross) {
  return {.block = block,
          .cross = cross,
          .causal = causal,
          .query = {"q.weight"},
          .key = {"k.weight"},
          .value = {"v.weight"},
          .output = {"o.weight"},
          .others = {kTable}};
}

// Full name of the table that counts in this block; of its stack's self attention, for a cross attention.
std::string table_name(const Context& context) {
  if (context.find(kTable) != nullptr) return context.full_name(kTable);
  const std::string& path = context.block.path;
  const std::string word = "block.";
  const std::size_t stack = path.rfind(word) + word.size();
  return path.substr(0, stack) + "0.layer.0.SelfAttention." + kTable;
}

BlockPlan configure_t5(const Context& context) {
  const std::string name = table_name(context);
  const SafetensorsEntry* table = context.tensors.find(name);
  if (table == nullptr || table->shape.rank() != 2) fail("expected a matrix ", name, " of [buckets, num_heads]");
  BlockPlan plan = measure(context, {.told = table->shape[1]});
  plan.config.scale = 1.0F;
  if (plan.cross) {
    plan.positions = "none";
  } else {
    plan.relative_bias = name;
    plan.positions = concat("relative bias, ", table->shape[0], " buckets");
    plan.config.relative_bias = RelativeBias{
        .max_distance = context.config.count({"relative_attention_max_distance"}).value_or(128),
        .bidirectional = !plan.config.causal,
    };
  }
  return plan;
}

}  // namespace

std::vector<Family> t5_families() {
  return {{"t5",
           {"t5", "mt5", "umt5"},
           {t5_naming("encoder.block.#.layer.0.SelfAttention", false, false),
            t5_naming("decoder.block.#.layer.0.SelfAttention", true, false),
            t5_naming("decoder.block.#.layer.1.EncDecAttention", false, true)},
           configure_t5}};
}

}  // namespace multihead::checkpoint

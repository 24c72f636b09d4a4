// GPT-OSS: Llama's names, biases everywhere, a learned sink a head, and every other layer sliding.
#include "checkpoint/measure.h"
#include "checkpoint/position.h"

namespace multihead::checkpoint {
namespace {

BlockPlan configure_gpt_oss(const Context& context) {
  BlockPlan plan = measure(context);
  plan.config.rotary = rotary_from(context, plan.config.head_dim, {.theta = 150000});
  if (slides(context, context.block.depth % 2 == 0)) plan.config.window = sliding_window(context, 128);
  return plan;
}

}  // namespace

std::vector<Family> gpt_oss_families() {
  Naming naming = llama_naming();
  naming.sinks = "sinks";
  return {{"gpt_oss", {"gpt_oss"}, {naming}, configure_gpt_oss}};
}

}  // namespace multihead::checkpoint

#include <iterator>
#include <utility>

#include "checkpoint/family.h"

namespace multihead::checkpoint {

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> joined;
    for (const auto part : {torch_families, bert_families, seq2seq_families, t5_families, vision_families, diffusion_families,
                            gpt_families, falcon_families, mpt_families, llama_families, gemma_families, gpt_oss_families}) {
      std::vector<Family> some = part();
      joined.insert(joined.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    return joined;
  }();
  return all;
}

}  // namespace multihead::checkpoint

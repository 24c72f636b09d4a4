// What a model says about a text: how well it expects it, and how it would go on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "multihead/decoder.h"
#include "multihead/tokenizer.h"

namespace multihead::cli {

struct Expectation {
  double bits_per_byte = 0;
  double uniform = 0;  ///< if every token were as likely as any other
};
/// -log2 of the probability of every token but the first, given those before it, over the bytes of those tokens. logits
/// [1, length, vocab_size]. Nothing when there are no such bytes.
std::optional<Expectation> expectation_of(const Tensor& logits, const std::vector<Index>& ids, const Tokenizer& tokenizer);

/// The likeliest next tokens as text, as many as fit into the model's positions, at most `tokens`; may be empty.
std::string guess_of(const Decoder& decoder, const std::vector<Index>& ids, const Tokenizer& tokenizer, Index tokens);

}  // namespace multihead::cli

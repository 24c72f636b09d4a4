#include "look_text.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace multihead::cli {
namespace {

// -ln p(id) under one row of logits.
double surprise(const float* logits, Index vocab_size, Index id) {
  const auto largest = static_cast<double>(*std::max_element(logits, logits + vocab_size));
  double sum = 0;
  for (Index n = 0; n < vocab_size; ++n) sum += std::exp(static_cast<double>(logits[n]) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[id]);
}

}  // namespace

std::optional<Expectation> expectation_of(const Tensor& logits, const std::vector<Index>& ids, const Tokenizer& tokenizer) {
  const Index vocab_size = logits.shape()[2];
  double nats = 0, bytes = 0, tokens = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    nats += surprise(logits.data<float>() + static_cast<Index>(i - 1) * vocab_size, vocab_size, ids[i]);
    bytes += static_cast<double>(tokenizer.piece(ids[i]).size());
    ++tokens;
  }
  if (bytes == 0) return std::nullopt;
  return Expectation{nats / std::numbers::ln2 / bytes, tokens * std::log2(static_cast<double>(vocab_size)) / bytes};
}

std::string guess_of(const Decoder& decoder, const std::vector<Index>& ids, const Tokenizer& tokenizer, Index tokens) {
  const auto length = static_cast<Index>(ids.size());
  if (decoder.config().max_positions > 0) tokens = std::min(tokens, decoder.config().max_positions - length);
  if (tokens <= 0) return "";
  const Generated generated = generate(decoder, ids, {.tokens = tokens});
  std::string text;
  for (std::size_t i = ids.size(); i < generated.ids.size(); ++i) text += tokenizer.piece(generated.ids[i]);
  return text;
}

}  // namespace multihead::cli

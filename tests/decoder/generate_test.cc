#include <gtest/gtest.h>

#include <map>

#include "decoder/tiny_decoder.h"
#include "multihead/decoder.h"

namespace multihead {
namespace {

Index draw(const std::vector<float>& logits, const SamplingOptions& options) {
  return Sampler(options).draw(ConstTensorView(logits.data(), {static_cast<Index>(logits.size())}));
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(draw({1, 3, 2, 3}, {}), 1);
  EXPECT_EQ(draw({-INFINITY, -INFINITY}, {}), 0);
  EXPECT_EQ(draw({7}, {}), 0);
}

TEST(Sampler, DrawsByProbability) {
  // Probabilities 1/2, 1/4, 1/4 at temperature 1, and 4/6, 1/6, 1/6 at temperature 1/2.
  const std::vector<float> logits{std::log(2.0F), 0, 0};
  constexpr int kDraws = 40'000;
  for (const auto& [temperature, first] : {std::pair{1.0, 0.5}, {0.5, 4.0 / 6}}) {
    Sampler sampler({.temperature = temperature, .seed = 5});
    std::map<Index, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.draw(ConstTensorView(logits.data(), {3}))];
    const double rest = (1 - first) / 2, deviation = 0.5 / std::sqrt(kDraws);
    EXPECT_NEAR(static_cast<double>(counts[0]) / kDraws, first, 5 * deviation);
    EXPECT_NEAR(static_cast<double>(counts[1]) / kDraws, rest, 5 * deviation);
    EXPECT_NEAR(static_cast<double>(counts[2]) / kDraws, rest, 5 * deviation);
  }
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachIt) {
  const std::vector<float> logits{std::log(0.2F), std::log(0.5F), std::log(0.3F)};
  const auto drawn = [&](double top_p) {
    Sampler sampler({.temperature = 1, .top_p = top_p, .seed = 1});
    std::map<Index, int> counts;
    for (int i = 0; i < 1000; ++i) ++counts[sampler.draw(ConstTensorView(logits.data(), {3}))];
    return counts.size();
  };
  EXPECT_EQ(drawn(0.4), 1U);
  EXPECT_EQ(drawn(0.6), 2U);
  EXPECT_EQ(drawn(0.9), 3U);
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 1e-9}), 1);
}

TEST(Sampler, TokensOfProbabilityZeroAreNeverDrawn) {
  const std::vector<float> logits{-INFINITY, 0, -INFINITY};
  for (std::uint64_t seed = 0; seed < 100; ++seed) EXPECT_EQ(draw(logits, {.temperature = 1, .seed = seed}), 1);
}

TEST(Sampler, Refusals) {
  EXPECT_THROW(Sampler({.temperature = -1}), InvalidArgument);
  EXPECT_THROW(Sampler({.temperature = NAN}), InvalidArgument);
  EXPECT_THROW(Sampler({.top_p = 0}), InvalidArgument);
  EXPECT_THROW(Sampler({.top_p = 1.5}), InvalidArgument);
  EXPECT_THROW(draw({}, {}), InvalidArgument);
  EXPECT_THROW(draw({1, NAN}, {}), InvalidArgument);
  EXPECT_THROW(draw({1, INFINITY}, {.temperature = 1}), InvalidArgument);
}

class Generate : public ::testing::Test {
 protected:
  // Tied random weights would say the same token again and again.
  static constexpr test::TinyShape kShape{.tied = false};
  Decoder decoder_{test::tiny_config(kShape), test::tiny_weights(kShape, 8)};
  std::vector<Index> prompt_{1, 5, 9};
};

TEST_F(Generate, GreedyIsTheArgumentOfTheMaximumOfWholePasses) {
  const Generated result = generate(decoder_, prompt_, {.tokens = 12});
  ASSERT_EQ(result.ids.size(), 15U);
  std::vector<Index> ids = prompt_;
  for (int n = 0; n <= 12; ++n) {
    const auto length = static_cast<Index>(ids.size());
    const Tensor logits = decoder_.forward(ConstTensorView(ids.data(), {1, length}));
    const float* last = logits.data<float>() + (length - 1) * 37;
    if (n == 12) {
      EXPECT_EQ(std::vector<float>(last, last + 37),
                std::vector<float>(result.next_logits.data<float>(), result.next_logits.data<float>() + 37));
    }
    ids.push_back(std::max_element(last, last + 37) - last);
  }
  ids.pop_back();
  EXPECT_EQ(result.ids, ids);
}

TEST_F(Generate, SeedsRepeat) {
  const auto with_seed = [&](std::uint64_t seed) {
    return generate(decoder_, prompt_, {.tokens = 40, .sampling = {.temperature = 1, .top_p = 0.9, .seed = seed}}).ids;
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST_F(Generate, StopsAtAnEndTokenAndWhenToldTo) {
  const std::vector<Index> ids = generate(decoder_, prompt_, {.tokens = 12}).ids;
  DecoderConfig config = test::tiny_config(kShape);
  config.end_ids = {ids[7]};
  const Decoder ending(config, test::tiny_weights(kShape, 8));
  const auto first = std::find(ids.begin() + 3, ids.end(), ids[7]);
  EXPECT_EQ(generate(ending, prompt_, {.tokens = 12}).ids, std::vector<Index>(ids.begin(), first));

  std::vector<Index> seen;
  const auto stop_after_four = [&](Index id) {
    seen.push_back(id);
    return seen.size() < 4;
  };
  const Generated stopped = generate(decoder_, prompt_, {.tokens = 12, .on_token = stop_after_four});
  EXPECT_EQ(stopped.ids, std::vector<Index>(ids.begin(), ids.begin() + 7));
  EXPECT_EQ(seen, std::vector<Index>(ids.begin() + 3, ids.begin() + 7));
}

TEST_F(Generate, BoundsOfTheModel) {
  EXPECT_EQ(generate(decoder_, prompt_, {.tokens = 0}).ids, prompt_);
  EXPECT_EQ(generate(decoder_, prompt_, {.tokens = 61}).ids.size(), 64U);
  EXPECT_THROW(generate(decoder_, prompt_, {.tokens = 62}), InvalidArgument);
  EXPECT_THROW(generate(decoder_, {}, {}), InvalidArgument);
  EXPECT_THROW(generate(decoder_, {37}, {.tokens = 1}), InvalidArgument);
  EXPECT_THROW(generate(decoder_, prompt_, {.tokens = -1}), InvalidArgument);
}

}  // namespace
}  // namespace multihead

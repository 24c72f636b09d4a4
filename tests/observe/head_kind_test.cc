// Kinds of heads: maps that are made to be of one kind, thresholds from both sides, and what must not be mistaken for a kind.
#include "multihead/head_kind.h"

#include <cctype>

#include "observe_testing.h"

namespace multihead::test {
namespace {

using Scores = std::function<double(Index i, Index j)>;
using Tokens = std::vector<std::string>;

constexpr double kHigh = 30;  // e^30: all of the attention

// One head of n tokens whose scores are any numbers: the keys are unit vectors, so a query is its row of scores.
HeadStatistics head_of(Index n, const Scores& scores, bool causal = true, const Tokens& tokens = {}) {
  Problem problem = make_problem({.query_len = n, .key_len = n, .head_dim = n}, 1);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      problem.inputs.query.data<float>()[i * n + j] = static_cast<float>(scores(i, j));
      problem.inputs.key.data<float>()[i * n + j] = i == j ? 1.0f : 0.0f;
    }
  }
  problem.options.causal = causal;
  problem.options.scale = 1.0f;
  Capture capture = capture_of(problem);
  capture.labels.query_tokens = capture.labels.key_tokens = tokens;
  return statistics(AttentionMap(std::make_shared<const Capture>(std::move(capture)))).front();
}

HeadLook look_at(Index n, const Scores& scores, bool causal = true, const Tokens& tokens = {}) {
  return look_of(head_of(n, scores, causal, tokens), tokens);
}

Scores at_distance(Index d) {
  return [d](Index i, Index j) { return i - j == d ? kHigh : 0; };
}

// A key for each row that neither place nor token explains, at most half of the way back, where nothing is near.
Index far_key(Index i) { return (i * i * 7 + 3) % std::max<Index>(i / 2, 1); }

double even(Index, Index) { return 0; }

// Letters of a text.
Tokens letters(const std::string& text) {
  Tokens tokens;
  for (const char c : text) tokens.emplace_back(1, c);
  return tokens;
}

// 32 different tokens, then the same again: what TransformerLens and Olsson et al. look at.
Tokens repeated() {
  Tokens tokens;
  for (int i = 0; i < 64; ++i) tokens.push_back("t" + std::to_string(i % 32));
  return tokens;
}

TEST(HeadKind, Places) {
  EXPECT_EQ(look_at(60, at_distance(1)).kind, HeadKind::kPrevious);
  EXPECT_EQ(look_at(60, at_distance(0)).kind, HeadKind::kSelf);
  EXPECT_EQ(look_at(60, at_distance(-1), false).kind, HeadKind::kNext);
  EXPECT_EQ(look_at(60, at_distance(1), false).kind, HeadKind::kPrevious);
  const HeadLook back = look_at(60, at_distance(3)), ahead = look_at(60, at_distance(-20), false);
  EXPECT_EQ(back.kind, HeadKind::kOffset);
  EXPECT_EQ(back.distance, 3);
  EXPECT_EQ(name_of(back), "3 tokens back");
  EXPECT_EQ(ahead.kind, HeadKind::kOffset);
  EXPECT_EQ(ahead.distance, -20);
  EXPECT_EQ(name_of(ahead), "20 tokens ahead");
  EXPECT_EQ(look_at(60, [](Index, Index j) { return j == 0 ? kHigh : 0; }).kind, HeadKind::kSink);
}

TEST(HeadKind, WhatItRestsOnIsToldWithItsBaseline) {
  const HeadStatistics head = head_of(60, at_distance(1));
  const HeadLook look = look_of(head);
  EXPECT_NEAR(look.measured.value, head.offset_mass[1].value, 1e-6);
  EXPECT_NEAR(look.measured.uniform, head.offset_mass[1].uniform, 1e-9);
  const double u = look.measured.uniform;
  EXPECT_NEAR(look.excess, (look.measured.value - u) / (1 - u), 1e-12);
  EXPECT_EQ(look.distance, 0);
  EXPECT_NEAR(look.local_mass.value, 1, 1e-6);
  double near = 0;  // of even attention: all of the first 9 rows, then 9 of i + 1 keys
  for (Index i = 0; i < 60; ++i) near += std::min(1.0, 9.0 / static_cast<double>(i + 1)) / 60;
  EXPECT_NEAR(look.local_mass.uniform, near, 1e-9);
}

TEST(HeadKind, Tokens) {
  const Tokens tokens = repeated();
  const auto token = [&](Index i) { return tokens[static_cast<std::size_t>(i)]; };
  const Scores behind_copies = [&](Index i, Index j) { return j > 0 && j < i && token(j - 1) == token(i) ? kHigh : 0; };
  const Scores copies = [&](Index i, Index j) { return j < i && token(j) == token(i) ? kHigh : 0; };
  const HeadLook induction = look_at(64, behind_copies, true, tokens);
  EXPECT_EQ(induction.kind, HeadKind::kInduction);
  EXPECT_NEAR(induction.measured.value, 0.5, 0.02);  // the first half has nothing to find
  EXPECT_EQ(look_at(64, copies, true, tokens).kind, HeadKind::kDuplicate);
  // Of tokens that nobody told, the map is still one: half of its rows read 31 or 32 back.
  EXPECT_NE(look_at(64, behind_copies).kind, HeadKind::kInduction);
  EXPECT_NE(look_at(64, copies).kind, HeadKind::kDuplicate);
}

TEST(HeadKind, Separators) {
  const Tokens tokens = letters("to be, or not to be: that is the question. Whether it is nobler");
  const auto is_letter = [&](Index j) {
    return std::isalpha(static_cast<unsigned char>(tokens[static_cast<std::size_t>(j)][0]));
  };
  const auto n = static_cast<Index>(tokens.size());
  const Scores separators = [&](Index, Index j) { return is_letter(j) ? 0 : kHigh; };
  const HeadLook look = look_at(n, separators, true, tokens);
  EXPECT_EQ(look.kind, HeadKind::kSeparator);
  double mass = 0, uniform = 0;
  for (Index i = 0; i < n; ++i) {
    double seen = 0;
    for (Index j = 0; j <= i; ++j) seen += is_letter(j) ? 0 : 1;
    mass += (seen > 0 ? 1 : 0) / static_cast<double>(n);
    uniform += seen / static_cast<double>(i + 1) / static_cast<double>(n);
  }
  EXPECT_NEAR(look.separator_mass.value, mass, 1e-5);
  EXPECT_NEAR(look.separator_mass.uniform, uniform, 1e-9);
  EXPECT_NE(look_of(head_of(n, separators)).kind, HeadKind::kSeparator);  // no tokens
  // Bytes beyond ASCII are no punctuation.
  const Tokens foreign(static_cast<std::size_t>(n), "é");
  EXPECT_EQ(look_at(n, even, true, foreign).separator_mass.value, 0);
  const HeadStatistics head = head_of(n, separators);
  const std::string refusal = refusal_of([&] { look_of(head, {"a", "b"}); });
  EXPECT_NE(refusal.find("expected a token for each of 63 keys; got 2"), std::string::npos) << refusal;
}

TEST(HeadKind, LocalBroadAndMixed) {
  const Scores near = [](Index i, Index j) { return i - j < 7 ? kHigh : 0; };
  EXPECT_EQ(look_at(100, near).kind, HeadKind::kLocal);
  EXPECT_EQ(look_at(100, even).kind, HeadKind::kBroad);
  const HeadLook mixed = look_at(100, [](Index i, Index j) { return j == far_key(i) ? kHigh : 0; });
  EXPECT_EQ(mixed.kind, HeadKind::kMixed);
  EXPECT_LT(mixed.measured.value, 0.05);  // its normalised entropy
  EXPECT_EQ(mixed.measured.uniform, 1);
}

// In short texts even attention gives a lot to every place: none of it is a preference.
TEST(HeadKind, EvenAttentionIsBroadHoweverShort) {
  for (const Index n : {2, 3, 4, 6, 9, 20}) {
    for (const bool causal : {true, false}) {
      const HeadLook look = look_at(n, even, causal, letters(std::string(static_cast<std::size_t>(n), 'a')));
      EXPECT_EQ(look.kind, HeadKind::kBroad) << n;
      EXPECT_NEAR(look.measured.value, 1, 1e-5);
    }
  }
}

TEST(HeadKind, ThresholdsAreOfTheExcess) {
  // Row i gives u + e (1 - u) to one key and shares the rest evenly: log(p / (1 - p)) above V - 1 others.
  const auto lifted = [](double excess, const std::function<Index(Index)>& key) {
    return [excess, key](Index i, Index j) {
      const double others = static_cast<double>(i), u = 1 / (others + 1), p = u + excess * (1 - u);
      return j == key(i) && i > 0 ? std::log(p / (1 - p) * others) : 0;
    };
  };
  const auto previous = [](Index i) { return i - 1; };
  const auto first = [](Index) { return Index{0}; };
  EXPECT_NE(look_at(90, lifted(0.48, previous)).kind, HeadKind::kPrevious);
  EXPECT_EQ(look_at(90, lifted(0.53, previous)).kind, HeadKind::kPrevious);
  EXPECT_NE(look_at(90, lifted(0.28, first)).kind, HeadKind::kSink);
  EXPECT_EQ(look_at(90, lifted(0.32, first)).kind, HeadKind::kSink);
  EXPECT_NEAR(look_at(90, lifted(0.32, first)).excess, 0.32, 1e-5);
}

TEST(HeadKind, NothingToTell) {
  EXPECT_EQ(look_at(1, even).kind, HeadKind::kNone);
  EXPECT_EQ(look_of(HeadStatistics()).kind, HeadKind::kNone);
  EXPECT_EQ(look_at(20, [](Index i, Index) { return i == 7 ? kNaN : 0; }).kind, HeadKind::kNone);
  EXPECT_LT(look_at(1, even).interest, 0);
}

TEST(HeadKind, InterestPrefersWhatTheTextDecides) {
  const Tokens tokens = repeated();
  const auto token = [&](Index i) { return tokens[static_cast<std::size_t>(i)]; };
  const auto induction = [&](double score) {
    return look_at(
        64, [&, score](Index i, Index j) { return j > 0 && j < i && token(j - 1) == token(i) ? score : 0; }, true, tokens);
  };
  const HeadLook mixed = look_at(64, [](Index i, Index j) { return j == far_key(i) ? kHigh : 0; });
  const HeadLook previous = look_at(64, at_distance(1)), broad = look_at(64, even), none = look_at(1, even);
  const std::vector<HeadLook> order{none, broad, previous, mixed, induction(5.5), induction(kHigh)};
  ASSERT_EQ(order[4].kind, HeadKind::kInduction);
  for (std::size_t n = 1; n < order.size(); ++n) EXPECT_LT(order[n - 1].interest, order[n].interest) << n;
  EXPECT_EQ(most_interesting(order), 5);
  EXPECT_EQ(most_interesting({previous, previous}), 0);
  EXPECT_EQ(most_interesting({}), -1);
}

}  // namespace
}  // namespace multihead::test

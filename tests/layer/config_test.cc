#include "layer/layer_test_util.h"

namespace multihead {
namespace {

TEST(LayerConfig, FillsZerosFromTheOthers) {
  const LayerConfig full = config_of(24, 6, [](LayerConfig& c) { c.rotary.emplace(); }).resolved();
  EXPECT_EQ(full.num_kv_heads, 6);
  EXPECT_EQ(full.head_dim, 4);
  EXPECT_EQ(full.value_dim, 4);
  EXPECT_EQ(full.key_input_dim, 24);
  EXPECT_EQ(full.value_input_dim, 24);
  EXPECT_EQ(full.output_dim, 24);
  EXPECT_EQ(full.rotary->rotary_dim, 4);
}

TEST(LayerConfig, KeepsWhatIsGivenAndFollowsIt) {
  const LayerConfig full = config_of(24, 6, [](LayerConfig& c) {
                             c.num_kv_heads = 2;
                             c.head_dim = 5;
                             c.value_dim = 3;
                             c.key_input_dim = 7;
                             c.output_dim = 11;
                           }).resolved();
  EXPECT_EQ(full.num_kv_heads, 2);
  EXPECT_EQ(full.head_dim, 5);
  EXPECT_EQ(full.value_dim, 3);
  EXPECT_EQ(full.value_input_dim, 7);
  EXPECT_EQ(full.output_dim, 11);
}

TEST(LayerConfig, ListsTheDivisorsWhenHeadsDoNotDivide) {
  EXPECT_EQ(
      error_of([] { config_of(4, 3).resolved(); }),
      "LayerConfig: num_heads 3 does not divide model_dim 4; expected one of its divisors 1, 2, 4, or an explicit head_dim");
  EXPECT_NE(error_of([] { config_of(36, 5).resolved(); }).find("divisors 1, 2, 3, 4, 6, 9, 12, 18, 36,"), std::string::npos);
  EXPECT_NE(error_of([] { config_of(7, 2).resolved(); }).find("divisors 1, 7,"), std::string::npos);
  EXPECT_EQ(config_of(4, 3, [](LayerConfig& c) { c.head_dim = 2; }).resolved().head_dim, 2);
}

// Each change alone makes a legal configuration illegal, and the text names the field.
TEST(LayerConfig, RefusesByName) {
  const struct {
    const char* name;
    std::function<void(LayerConfig&)> change;
  } cases[] = {
      {"model_dim", [](LayerConfig& c) { c.model_dim = 0; }},
      {"model_dim", [](LayerConfig& c) { c.model_dim = -8; }},
      {"model_dim", [](LayerConfig& c) { c.model_dim = INT64_MAX; }},
      {"num_heads", [](LayerConfig& c) { c.num_heads = 0; }},
      {"num_heads", [](LayerConfig& c) { c.num_heads = -2; }},
      {"num_heads", [](LayerConfig& c) { c.num_heads = INT64_MIN; }},
      {"num_kv_heads", [](LayerConfig& c) { c.num_kv_heads = 3; }},
      {"num_kv_heads", [](LayerConfig& c) { c.num_kv_heads = -1; }},
      {"num_kv_heads", [](LayerConfig& c) { c.num_kv_heads = 16; }},
      {"head_dim", [](LayerConfig& c) { c.head_dim = -1; }},
      {"num_heads * head_dim", [](LayerConfig& c) { c.head_dim = Index{1} << 30; }},
      {"value_dim", [](LayerConfig& c) { c.value_dim = -1; }},
      {"key_input_dim", [](LayerConfig& c) { c.key_input_dim = -1; }},
      {"value_input_dim", [](LayerConfig& c) { c.value_input_dim = -1; }},
      {"output_dim", [](LayerConfig& c) { c.output_dim = -1; }},
      {"scale", [](LayerConfig& c) { c.scale = std::nanf(""); }},
      {"softcap", [](LayerConfig& c) { c.softcap = -1.0f; }},
      {"clip", [](LayerConfig& c) { c.clip = 0.0f; }},
      {"window",
       [](LayerConfig& c) {
         c.window = Window{-1, 0};
       }},
      {"window",
       [](LayerConfig& c) {
         c.window = Window{{}, -1};
       }},
      {"query_key_norm.epsilon",
       [](LayerConfig& c) {
         c.query_key_norm = QueryKeyNorm{QueryKeyNorm::Kind::kRms, -1, false};
       }},
      {"relative_bias.max_distance",
       [](LayerConfig& c) {
         c.relative_bias = RelativeBias{0, true};
       }},
      {"rotary.rotary_dim", [](LayerConfig& c) { c.rotary.emplace().rotary_dim = 3; }},
      {"rotary.rotary_dim", [](LayerConfig& c) { c.rotary.emplace().rotary_dim = 6; }},
      {"rotary.rotary_dim", [](LayerConfig& c) { c.rotary.emplace().rotary_dim = -2; }},
      {"rotary.theta", [](LayerConfig& c) { c.rotary.emplace().theta = 1; }},
      {"rotary.scaling.factor", [](LayerConfig& c) { c.rotary.emplace().scaling = LinearRotaryScaling{0}; }},
      {"rotary.scaling.high_freq_factor",
       [](LayerConfig& c) {
         c.rotary.emplace().scaling = Llama3RotaryScaling{8, 4, 4, 8192};
       }},
      {"rotary.scaling.factor",
       [](LayerConfig& c) { c.rotary.emplace().scaling = YarnRotaryScaling{-1, 4096, 32, 1, true, {}}; }},
      {"rotary.scaling.attention_factor",
       [](LayerConfig& c) { c.rotary.emplace().scaling = YarnRotaryScaling{4, 4096, 32, 1, true, 0.0}; }},
  };
  for (const auto& [name, change] : cases) {
    const std::string text = error_of([&change = change] { config_of(32, 8, change).resolved(); });
    EXPECT_EQ(text.find(std::string("LayerConfig: ") + name), 0u) << name << ": " << text;
  }
}

}  // namespace
}  // namespace multihead

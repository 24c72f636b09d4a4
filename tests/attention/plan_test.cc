// plan() tells what attention() would do, without doing it.
#include <gtest/gtest.h>

#include <string>

#include "attention_checks.h"
#include "storage.h"

namespace multihead::test {
namespace {

AttentionPlan plan_of(const Problem& problem) {
  return plan(problem.inputs.query, problem.inputs.key, problem.inputs.value, problem.options);
}

TEST(AttentionPlan, NamesTheKernelThatRuns) {
  Problem token = make_problem({.heads = 2, .kv_heads = 1, .query_len = 1, .key_len = 300, .head_dim = 64, .value_dim = 64}, 1);
  EXPECT_EQ(plan_of(token).kernel, "decode");
  token.options.softcap = 10.0f;  // scores are worked on, which panels do
  EXPECT_EQ(plan_of(token).kernel, "panels");
  const Problem prompt = make_problem({.query_len = 300, .key_len = 300, .head_dim = 64, .value_dim = 64}, 2);
  EXPECT_EQ(plan_of(prompt).kernel, "panels");
}

TEST(AttentionPlan, IsCompleteForEveryKindOfCall) {
  for (const Shape& shape :
       {Shape{.query_len = 1, .key_len = 1, .head_dim = 1, .value_dim = 1},
        Shape{.batch = 2, .heads = 8, .kv_heads = 2, .query_len = 100, .key_len = 300, .head_dim = 64, .value_dim = 64},
        Shape{.heads = 8, .kv_heads = 1, .query_len = 1, .key_len = 20000, .head_dim = 64, .value_dim = 64},
        Shape{.query_len = 50, .key_len = 10, .head_dim = 576, .value_dim = 512}}) {
    const Problem problem = make_problem(shape, 25000);
    for_each_target([&] {
      for (const int threads : {1, 2, 5}) {
        set_num_threads(threads);
        const AttentionPlan p = plan_of(problem);
        SCOPED_TRACE(to_string(shape) + "; " + p.reason);
        EXPECT_EQ(p.target, active_target());
        EXPECT_TRUE(p.kernel == "panels" || p.kernel == "decode") << p.kernel;
        EXPECT_FALSE(p.reason.empty());
        EXPECT_EQ(p.reason.find('\n'), std::string::npos);
        EXPECT_GE(p.threads, 1);
        EXPECT_LE(p.threads, threads);
        EXPECT_GE(p.panel_lanes, 1);
        EXPECT_GE(p.block_lanes, 1);
        EXPECT_GE(p.key_block, 1);
        EXPECT_EQ(p.key_chunk % p.key_block, 0);
        EXPECT_GE(p.work_items, 1);
        EXPECT_GT(p.workspace_bytes, 0);
      }
      set_num_threads(1);
    });
  }
}

// Key blocks and chunks are part of the definition of the bits: the number of threads must not move them.
TEST(AttentionPlan, ThreadsDoNotMoveTheKeyCut) {
  const Problem problem =
      make_problem({.heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 9000, .head_dim = 32, .value_dim = 32}, 25100);
  for_each_target([&] {
    const AttentionPlan one = plan_of(problem);
    set_num_threads(7);
    const AttentionPlan seven = plan_of(problem);
    set_num_threads(1);
    EXPECT_EQ(one.key_block, seven.key_block);
    EXPECT_EQ(one.key_chunk, seven.key_chunk);
  });
}

TEST(AttentionPlan, WorkspaceKeepsItsPromise) {
  for (const Index dim : {1, 64, 128, 256, 576}) {
    for (const Index queries : {1, 100, 5000}) {
      const Problem problem = make_problem({.query_len = queries, .key_len = 64, .head_dim = dim, .value_dim = dim}, 25200);
      for_each_target([&] { EXPECT_LE(plan_of(problem).workspace_bytes, 2 << 20) << to_string(problem.shape); });
    }
  }
}

TEST(AttentionPlan, SaysWhenKeysAreCopied) {
  const Shape shape{.heads = 2, .kv_heads = 2, .query_len = 30, .key_len = 40, .head_dim = 16, .value_dim = 16};
  const Problem problem = make_problem(shape, 25300);
  EXPECT_FALSE(plan_of(problem).copies_keys);
  EXPECT_TRUE(plan_of(make_problem(shape, 25300, DType::kF16)).copies_keys);
  const Stored value(problem.inputs.value, Layout::kSequenceMajor), key(problem.inputs.key, Layout::kTransposed);
  EXPECT_TRUE(plan(problem.inputs.query, problem.inputs.key, value).copies_keys);
  EXPECT_TRUE(plan(problem.inputs.query, key, problem.inputs.value).copies_keys);
}

TEST(AttentionPlan, NothingToDo) {
  for (const Shape& shape : {Shape{.batch = 0, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6},
                             Shape{.query_len = 0, .key_len = 4, .head_dim = 5, .value_dim = 6},
                             Shape{.heads = 0, .kv_heads = 0, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6},
                             Shape{.heads = 0, .kv_heads = 2, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6}}) {
    EXPECT_EQ(plan_of(make_problem(shape, 25400)).work_items, 0) << to_string(shape);
  }
  EXPECT_NO_THROW(plan_of(make_problem({.query_len = 3, .key_len = 0, .head_dim = 5, .value_dim = 6}, 25400)));
}

TEST(AttentionPlan, RefusesWhatAttentionRefuses) {
  const Problem problem = make_problem({.query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6}, 25500);
  AttentionOptions options;
  options.key_lengths = {5};
  try {
    plan(problem.inputs.query, problem.inputs.key, problem.inputs.value, options);
    ADD_FAILURE() << "was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).rfind("plan: key_lengths[0]", 0), 0u) << error.what();
  }
}

}  // namespace
}  // namespace multihead::test

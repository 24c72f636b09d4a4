#include "multihead/accuracy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "attention_checks.h"
#include "random_inputs.h"

namespace multihead::test {
namespace {

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return value == 0 ? "–" : text.str();
}

TEST(Accuracy, TheDocumentationQuotesTheTable) {
  std::ifstream file(std::string(MULTIHEAD_SOURCE_DIR) + "/docs/numerics.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Accuracy& row : kAccuracy) {
    std::ostringstream line;
    line << "| " << row.result << " | " << name_of(row.dtype) << " | " << number(row.relative_frobenius) << " | "
         << number(row.absolute) << " |\n";
    EXPECT_NE(page.str().find(line.str()), std::string::npos) << "docs/numerics.md lacks " << line.str();
  }
}

// Error of a whole result relative to the result itself, Frobenius: no allowance for large scores or cancellation.
double plain_error(const Shape& shape, DType dtype, Family family, bool causal) {
  const Inputs inputs = make_inputs(shape, 31, dtype, family);
  AttentionOptions options;
  options.causal = causal;
  Tensor output(dtype, shape.output()), exact(DType::kF64, shape.output());
  attention(inputs.query, inputs.key, inputs.value, output, options);
  reference_attention(inputs.query, inputs.key, inputs.value, exact, options);
  double error = 0, norm = 0;
  for (Index i = 0, count = output.size(); i < count; ++i) {
    const double right = exact.data<double>()[i];
    error += (load_as_double(output, i) - right) * (load_as_double(output, i) - right);
    norm += right * right;
  }
  return std::sqrt(error / norm);
}

TEST(Accuracy, OrdinaryAndHeavyTailedInputsMeetThePlainBound) {
  for_each_target([] {
    for (const auto& [family, name] : kFamilies) {
      if (family != Family::kNormal && family != Family::kStudentT && family != Family::kTies && family != Family::kAllEqual &&
          family != Family::kDominantKey && family != Family::kAlternating) {
        continue;
      }
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (const bool causal : {false, true}) {
          for (const Shape& shape :
               {Shape{1, 2, 2, 64, 300, 64, 64}, Shape{1, 2, 1, 20, 1000, 128, 128}, Shape{1, 1, 1, 80, 80, 80, 80}}) {
            EXPECT_LE(plain_error(shape, dtype, family, causal), accuracy_of("output", dtype).relative_frobenius)
                << name << ", " << name_of(dtype) << ", " << to_string(shape) << (causal ? ", causal" : "");
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace multihead::test

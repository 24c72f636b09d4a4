#include "lab.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace multihead::cli {
namespace {

struct Matrix {
  std::string title;
  Index rows, cols;
  std::vector<double> values;  // row-major

  Matrix(std::string name, Index row_count, Index col_count)
      : title(std::move(name)), rows(row_count), cols(col_count), values(static_cast<std::size_t>(rows * cols)) {}
  double& at(Index row, Index col) { return values[static_cast<std::size_t>(row * cols + col)]; }
  double at(Index row, Index col) const { return values[static_cast<std::size_t>(row * cols + col)]; }
};

// A part of a dense tensor: `rows` rows of `cols` values, from element `offset` on.
Matrix matrix_of(const Tensor& tensor, const std::string& title, Index offset, Index rows, Index cols) {
  Matrix matrix(title, rows, cols);
  for (Index i = 0; i < rows * cols; ++i) matrix.values[static_cast<std::size_t>(i)] = load_as_double(tensor, offset + i);
  return matrix;
}

// X W^T, the columns of one head: rows [first, first + dim) of `weight` [out, in].
Matrix project(const Matrix& input, const Tensor& weight, const std::string& title, Index first, Index dim) {
  Matrix result(title, input.rows, dim);
  for (Index i = 0; i < input.rows; ++i) {
    for (Index c = 0; c < dim; ++c) {
      for (Index t = 0; t < input.cols; ++t)
        result.at(i, c) += input.at(i, t) * load_as_double(weight, (first + c) * input.cols + t);
    }
  }
  return result;
}

struct Head {
  Matrix query, key, value, scores, probabilities, output;
};

Head head_of(const MultiHeadAttention& layer, const Matrix& input, const Tensor& probabilities, Index h) {
  const LayerConfig& config = layer.config();
  const LayerWeights& weights = layer.weights();
  const Index n = input.rows, dim = config.head_dim, value_dim = config.value_dim;
  const Index kv_head = h / (config.num_heads / config.num_kv_heads);
  Head head{project(input, weights.query_weight, "Q", h * dim, dim),
            project(input, weights.key_weight, "K", kv_head * dim, dim),
            project(input, weights.value_weight, "V", kv_head * value_dim, value_dim),
            Matrix("scores", n, n),
            matrix_of(probabilities, "coefficients", h * n * n, n, n),
            Matrix("O_" + std::to_string(h), n, value_dim)};
  const double scale = config.scale ? static_cast<double>(*config.scale) : 1 / std::sqrt(static_cast<double>(dim));
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      for (Index t = 0; t < dim; ++t) head.scores.at(i, j) += scale * head.query.at(i, t) * head.key.at(j, t);
      for (Index t = 0; t < value_dim; ++t) head.output.at(i, t) += head.probabilities.at(i, j) * head.value.at(j, t);
    }
  }
  return head;
}

std::string cell(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", value);
  return text;
}

// Matrices of the same number of rows beside each other, each under its title.
std::string side_by_side(const std::vector<Matrix>& matrices) {
  std::vector<std::string> lines(static_cast<std::size_t>(matrices.front().rows) + 1);
  for (const Matrix& matrix : matrices) {
    std::size_t width = 0;
    for (const double value : matrix.values) width = std::max(width, cell(value).size());
    std::vector<std::string> block{matrix.title};
    for (Index i = 0; i < matrix.rows; ++i) {
      std::string line;
      for (Index c = 0; c < matrix.cols; ++c) {
        const std::string text = cell(matrix.at(i, c));
        line += std::string(width - text.size() + (c > 0 ? 1 : 0), ' ') + text;
      }
      block.push_back(line);
    }
    const std::size_t block_width = std::max(block[0].size(), block.back().size());
    for (std::size_t i = 0; i < lines.size(); ++i)
      lines[i] += "  " + block[i] + std::string(block_width - block[i].size(), ' ') + "  ";
  }
  std::string text;
  for (const std::string& line : lines) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

Json json_of(const Matrix& matrix) {
  Json rows = Json::array();
  for (Index i = 0; i < matrix.rows; ++i) {
    const auto begin = matrix.values.begin() + i * matrix.cols;
    rows.push_back(std::vector<double>(begin, begin + matrix.cols));
  }
  return rows;
}

Matrix concat(const std::vector<Head>& heads) {
  const Index dim = heads.front().output.cols;
  Matrix result("concat", heads.front().output.rows, dim * static_cast<Index>(heads.size()));
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (Index i = 0; i < result.rows; ++i) {
      for (Index t = 0; t < dim; ++t) result.at(i, static_cast<Index>(h) * dim + t) = heads[h].output.at(i, t);
    }
  }
  return result;
}

}  // namespace

bool is_readable(const LayerConfig& config, Index length) {
  constexpr Index kRows = 8, kWidth = 8;
  const bool plain = !config.rotary && !config.query_key_norm && !config.clip && !config.softcap;
  return plain && length > 0 && length <= kRows && config.model_dim <= kWidth;
}

void add_matrices(const MultiHeadAttention& layer, const Tensor& input, Report& report) {
  const LayerConfig& config = layer.config();
  const Index n = input.shape()[1];
  Tensor probabilities(DType::kF64, {1, config.num_heads, n, n});
  ForwardObservation seen;
  seen.probabilities = probabilities.view();
  const Tensor result = layer.reference_forward(input, input, {}, seen);

  const Matrix x = matrix_of(input, "X", 0, n, config.model_dim);
  const Matrix output = matrix_of(result, "output = concat W_O", 0, n, config.output_dim);
  std::vector<Head> heads;
  Json heads_json = Json::array();
  std::string text = "\n";
  text += side_by_side({x});
  for (Index h = 0; h < config.num_heads; ++h) {
    const Head& head = heads.emplace_back(head_of(layer, x, probabilities, h));
    heads_json.push_back({{"query", json_of(head.query)},
                          {"key", json_of(head.key)},
                          {"value", json_of(head.value)},
                          {"scores", json_of(head.scores)},
                          {"probabilities", json_of(head.probabilities)},
                          {"output", json_of(head.output)}});
    text += "\nhead " + std::to_string(h) + "\n";
    text += side_by_side({head.query, head.key, head.value, head.scores, head.probabilities, head.output});
  }
  const Matrix joined = concat(heads);
  text += "\n";
  report.append(text + side_by_side({joined, output}));
  report.set("matrices",
             {{"input", json_of(x)}, {"heads", heads_json}, {"concat", json_of(joined)}, {"output", json_of(output)}});
}

}  // namespace multihead::cli

#include "lab/server/matrix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "multihead/error.h"

namespace multihead::lab {

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows, b.cols);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index c = 0; c < b.cols; ++c) {
      for (Index t = 0; t < a.cols; ++t) result.at(i, c) += a.at(i, t) * b.at(t, c);
    }
  }
  return result;
}

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix.cols, matrix.rows);
  for (Index i = 0; i < matrix.rows; ++i) {
    for (Index c = 0; c < matrix.cols; ++c) result.at(c, i) = matrix.at(i, c);
  }
  return result;
}

Matrix part(const Matrix& matrix, Index row, Index rows, Index col, Index cols) {
  Matrix result(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index c = 0; c < cols; ++c) result.at(i, c) = matrix.at(row + i, col + c);
  }
  return result;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  return largest;
}

Tensor tensor_of(const Matrix& matrix, const Dims& shape) {
  Tensor tensor = Tensor::uninitialized(DType::kF32, shape);
  std::transform(matrix.values.begin(), matrix.values.end(), tensor.data<float>(),
                 [](double v) { return static_cast<float>(v); });
  return tensor;
}

Matrix matrix_of(const Tensor& tensor, Index offset, Index rows, Index cols) {
  Matrix matrix(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) matrix.values[static_cast<std::size_t>(i)] = load_as_double(tensor, offset + i);
  return matrix;
}

Json json_of(double value) {
  if (!std::isfinite(value)) return nullptr;
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return value;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), narrow).ptr;
  double shortest = value;
  std::from_chars(text.data(), end, shortest);
  return shortest;
}

Json json_of(const Matrix& matrix) {
  Json rows = Json::array();
  for (Index i = 0; i < matrix.rows; ++i) {
    Json row = Json::array();
    for (Index c = 0; c < matrix.cols; ++c) row.push_back(json_of(matrix.at(i, c)));
    rows.push_back(std::move(row));
  }
  return rows;
}

Matrix matrix_from(const Json& json, const std::string& what, Index max_rows, Index max_cols) {
  const auto fail = [&](const std::string& came) {
    throw InvalidArgument(what + ": expected 1 … " + std::to_string(max_rows) + " equally long rows of 1 … " +
                          std::to_string(max_cols) + " finite numbers; got " + came);
  };
  if (!json.is_array() || json.empty()) fail(json.is_array() ? "an empty array" : json.type_name());
  if (json.size() > static_cast<std::size_t>(max_rows)) fail(std::to_string(json.size()) + " rows");
  if (!json[0].is_array()) fail("a row that is no array but " + std::string(json[0].type_name()));
  if (json[0].empty() || json[0].size() > static_cast<std::size_t>(max_cols)) fail(std::to_string(json[0].size()) + " columns");
  Matrix matrix(static_cast<Index>(json.size()), static_cast<Index>(json[0].size()));
  for (Index i = 0; i < matrix.rows; ++i) {
    const Json& row = json[static_cast<std::size_t>(i)];
    if (!row.is_array() || row.size() != json[0].size()) fail("row " + std::to_string(i) + " of another length than row 0");
    for (Index c = 0; c < matrix.cols; ++c) {
      const Json& cell = row[static_cast<std::size_t>(c)];
      const std::string where = " in row " + std::to_string(i) + ", column " + std::to_string(c);
      if (!cell.is_number()) fail(std::string(cell.type_name()) + where);
      // What the engine computes with is f32, so that is what the page shows.
      const auto value = static_cast<double>(static_cast<float>(cell.get<double>()));
      if (!std::isfinite(value)) fail(cell.dump() + where + ", which no f32 holds");
      matrix.at(i, c) = value;
    }
  }
  return matrix;
}

}  // namespace multihead::lab

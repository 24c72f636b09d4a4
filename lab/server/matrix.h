// A small row-major matrix of doubles: what the lab shows. The numbers are the engine's f32 or a definition's f64.
#pragma once

#include <string>
#include <vector>

#include "lab/server/http.h"
#include "multihead/tensor.h"

namespace multihead::lab {

struct Matrix {
  Index rows = 0, cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(Index row_count, Index col_count)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(row_count * col_count)) {}
  double& at(Index row, Index col) { return values[static_cast<std::size_t>(row * cols + col)]; }
  double at(Index row, Index col) const { return values[static_cast<std::size_t>(row * cols + col)]; }
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

/// a b. The caller vouches for the shapes.
Matrix product(const Matrix& a, const Matrix& b);
Matrix transposed(const Matrix& matrix);
/// Rows [row, row + rows) of columns [col, col + cols).
Matrix part(const Matrix& matrix, Index row, Index rows, Index col, Index cols);
/// The largest |a - b|; both of the same shape.
double largest_difference(const Matrix& a, const Matrix& b);

/// f32, [rows, cols] under `shape`, which has as many elements.
Tensor tensor_of(const Matrix& matrix, const Dims& shape);
/// Elements [offset, offset + rows * cols) of a dense tensor.
Matrix matrix_of(const Tensor& tensor, Index offset, Index rows, Index cols);

/// Rows as arrays. Numbers that are exact in f32 are written with the fewest digits that give the same f32; not finite: null.
Json json_of(const Matrix& matrix);
Json json_of(double value);
/// Throws InvalidArgument that names `what` unless `json` is an array of equally long arrays of finite f32 numbers, at least
/// one and at most `max_rows` x `max_cols`.
Matrix matrix_from(const Json& json, const std::string& what, Index max_rows, Index max_cols);

}  // namespace multihead::lab

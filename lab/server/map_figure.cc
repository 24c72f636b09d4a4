// A window of a head small enough to draw: the Figure room's numbers from a capture.
#include <algorithm>

#include "lab/server/lab_api.h"
#include "lab/server/map_request.h"
#include "lab/server/matrix.h"

namespace multihead::lab {
namespace {

constexpr Index kWindow = 24;

// Rows of one head of a dense [batch, heads, length, dim] tensor.
Matrix rows_of(const Tensor& tensor, Index batch, Index head, IndexRange rows) {
  const Index dim = tensor.shape()[3];
  return matrix_of(tensor, ((batch * tensor.shape()[1] + head) * tensor.shape()[2] + rows.begin) * dim, rows.size(), dim);
}

// The heads' outputs: kept by the capture, or from whole rows of coefficients.
Matrix outputs(const AttentionMap& map, Index head, Index kv_head, IndexRange rows) {
  const Capture& capture = map.capture();
  if (!capture.output.empty()) return rows_of(capture.output, map.batch_entry(), head, rows);
  const Matrix value = rows_of(capture.value, map.batch_entry(), kv_head, {0, map.key_len()});
  Matrix result(rows.size(), value.cols);
  for (Index i = 0; i < rows.size(); ++i) {
    const MapRow row = map.row(head, rows.begin + i);
    for (Index j = 0; j < value.rows; ++j) {
      for (Index t = 0; t < value.cols; ++t)
        result.at(i, t) += static_cast<double>(row.probability[static_cast<std::size_t>(j)]) * value.at(j, t);
    }
  }
  return result;
}

}  // namespace

Response figure(const Captures& captures, const Request& request) {
  const auto [open, head] = place_of(captures, request);
  const AttentionMap& map = open.map();
  const Capture& capture = map.capture();
  if (capture.value.empty())
    throw HttpError{409, "capture " + open.id() + " holds no values; capture with them to draw the figure"};
  const Index first_row = integer_parameter(request, "row", 0, 0, std::max<Index>(map.query_len() - 1, 0));
  const Index first_key = integer_parameter(request, "key", 0, 0, std::max<Index>(map.key_len() - 1, 0));
  const IndexRange rows{first_row, std::min(map.query_len(), first_row + kWindow)};
  const IndexRange keys{first_key, std::min(map.key_len(), first_key + kWindow)};
  const Index kv_head = head / (map.num_heads() / capture.num_kv_heads());
  Json coefficients = Json::array();
  for (Index i = rows.begin; i < rows.end; ++i) {
    Json line = Json::array();
    for (Index j = keys.begin; j < keys.end; ++j) {
      const Coefficient coefficient = map.at(head, i, j);
      line.push_back(coefficient.state == CellState::kMasked ? Json(nullptr)
                                                             : json_of(static_cast<double>(coefficient.probability)));
    }
    coefficients.push_back(std::move(line));
  }
  return json_response({{"first_row", rows.begin},
                        {"first_key", keys.begin},
                        {"Q", json_of(rows_of(capture.query, map.batch_entry(), head, rows))},
                        {"K", json_of(rows_of(capture.key, map.batch_entry(), kv_head, keys))},
                        {"V", json_of(rows_of(capture.value, map.batch_entry(), kv_head, keys))},
                        {"A", std::move(coefficients)},
                        {"Y", json_of(outputs(map, head, kv_head, rows))}});
}

}  // namespace multihead::lab

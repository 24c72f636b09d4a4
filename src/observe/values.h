// What coefficients carry: lengths of values and outputs behind W_O.
#pragma once

#include <vector>

#include "observe/capture_view.h"

namespace multihead {

/// ‖v_j W_O^h‖ for every key of the batch entry, 0 beyond the key length; ‖v_j‖ without W_O. The capture has values.
std::vector<float> value_norms_of(const CaptureView& view, Index head);

/// ‖O_h W_O^h‖_F over the rows of the batch entry; ‖O_h‖_F without W_O. The capture has outputs.
double output_norm_of(const CaptureView& view, Index head);

}  // namespace multihead

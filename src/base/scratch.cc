#include "base/scratch.h"

#include "multihead/tensor.h"

namespace multihead {

float* thread_scratch(std::size_t count) {
  thread_local Tensor memory;
  if (memory.empty() || static_cast<std::size_t>(memory.size()) < count) {
    memory = Tensor();  // freed first: the two need not exist together
    memory = Tensor::uninitialized(DType::kF32, {static_cast<Index>(count)});
  }
  return memory.data<float>();
}

}  // namespace multihead

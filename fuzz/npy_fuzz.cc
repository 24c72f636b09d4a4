#include "fuzz/npy_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  multihead::fuzz_npy({data, size});
  return 0;
}

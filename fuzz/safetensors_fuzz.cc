#include "fuzz/safetensors_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  multihead::fuzz_safetensors({data, size});
  return 0;
}

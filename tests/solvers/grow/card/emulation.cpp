// A driver with the few functions that growth calls; handles 1 and 2 are the kernels.
#include <mutex>

#include "emulation.h"
#include "visit.cu"

Word memory[1 << 20];
static std::mutex one_at_a_time;

template <class Structure> static void run(void (*kernel)(Structure), void **parameters) {
  Structure structure;
  std::memcpy(&structure, parameters[0], sizeof(structure));
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) kernel(structure);
}

extern "C" int cuLaunchKernel(int64_t kernel, int n_blocks, int, int, int, int, int, int n_bytes,
                              int64_t, void **parameters, int64_t) {
  if (n_bytes > 96 * 1024) return 1;
  std::lock_guard<std::mutex> guard(one_at_a_time);
  gridDim.x = n_blocks;
  if (kernel == 1) run(visit, parameters);
  if (kernel == 2) run(scores, parameters);
  return kernel > 2;
}

extern "C" int cuMemcpyHtoDAsync_v2(void *to, const void *from, int64_t n_bytes, int64_t) {
  std::memcpy(to, from, n_bytes);
  return 0;
}

extern "C" int cuStreamSynchronize(int64_t) { return 0; }

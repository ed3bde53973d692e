// The words of CUDA that the kernels use, for a compiler of the host: every block is one thread,
// and blocks run one after the other.
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __global__
#define __shared__
#define __syncthreads()
#define __threadfence()

struct Index { unsigned int x; };
static Index threadIdx = {0}, blockIdx, blockDim = {1}, gridDim;

template <class Value, class Other> Value atomicAdd(Value *place, Other value) {
  const Value before = *place;
  *place += (Value)value;
  return before;
}

template <class Value> Value atomicExch(Value *place, Value value) {
  const Value before = *place;
  *place = value;
  return before;
}

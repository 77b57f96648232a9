// The beginning and the end of a product in pieces.
#include "base.cuh"

extern "C" __global__ void __launch_bounds__(256) zero(Y* y, i64 size) {
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < size; i += (i64)gridDim.x * 256) y[i] = 0;
}

// out[i] = sum of parts[p][i] over p, in the order of p.
extern "C" __global__ void __launch_bounds__(256) sum_parts(const Y* parts, Y* out, i64 count, i64 size) {
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < size; i += (i64)gridDim.x * 256) {
    Y sum = 0;
    for (i64 p = 0; p < count; p++) sum += parts[p * size + i];
    out[i] = sum;
  }
}

// Two kernels stand ready for a product with many columns, and each decides in the same way whose turn it is:
// tensor cores', when the pattern is dense enough for them (a typical block holds `least` nonzeros) and x is
// finite, since 0 times what is not would not be 0.
#pragma once
#include "walk.cuh"

__device__ __forceinline__ bool tensor_turn(const u32* table, const u32* flags, i64 count, i64 least) {
  bool strange = false;
  for (i64 i = threadIdx.x; i < count; i += blockDim.x) strange |= flags[i] != 0;
  return !__syncthreads_or(strange) && (i64)Walk::typical(table) >= least;
}

// parts[slot][j] = sum of x[s] over the slot's streams s that have position j, for float32, the same bits in
// every run. Shared memory adds integers fast and floats in a loop of trials, so a block of the result is kept
// there as fixed point in two words, high * 2^25 + low, in units of 2^-49 of the largest magnitude: sums of
// integers are exact in any order. Magnitudes are taken in turns, those within 2^-26 of the largest that is
// left, so that no addend loses more than its last bit; what is not finite is added by itself.
// Grid: blocks, times slots of streams.
#include "stream.cuh"

constexpr u32 ROWS = 2048, FINITE = 0x7F800000;
template <int n> struct Lanes { static constexpr int count = n; };

__device__ __forceinline__ u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFF; }
__device__ __forceinline__ double power_of_2(int n) { return __longlong_as_double((i64)(1023 + n) << 52); }

extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
fixed(const u32* table, const u32* seed, const u32* offset, const float* x, float* parts, i64 streams, i64 length) {
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u16 counts[ROWS], sorted[ROWS];
  __shared__ u32 top;
  const Window window(table, seed, offset, length);
  u32 *low = (u32*)memory, *high = low + window.size;
  if (blockIdx.x >= window.blocks) return;
  const u32 block = window.block + blockIdx.x;
  const i64 start = window.start(block), from = start < 0 ? -start : 0, to = min((i64)window.size, length - start);
  const i64 begin = share(streams, blockIdx.y, gridDim.y), end = share(streams, blockIdx.y + 1, gridDim.y);
  float* out = parts + blockIdx.y * length + start;
  for (u32 i = threadIdx.x; i < 2 * window.size; i += THREADS) low[i] = 0;
  for (i64 i = from + threadIdx.x; i < to; i += THREADS) out[i] = 0;

  // About 8 addends to a position between two flushes. There is room for 64: a Poisson count of mean 8 goes
  // beyond that with probability 1e-35.
  const u32 typical = max(1u, Walk::typical(table)), piece = max(1u, 8 * window.size / typical);
  for (i64 first = begin; first < end; first += piece) {
    const i64 last = min(first + piece, end);
    bool strange = false;
    for (u32 upper = FINITE;;) {
      u32 most = 0;
      for (i64 s = first + threadIdx.x; s < last; s += THREADS) {
        const u32 m = magnitude(x[s]);
        strange |= m >= FINITE;
        if (m < upper) most = max(most, m);
      }
      for (int o = 16; o; o >>= 1) most = max(most, __shfl_xor_sync(0xFFFFFFFFu, most, o));
      if (threadIdx.x == 0) top = 0;
      __syncthreads();
      if (threadIdx.x % 32 == 0) atomicMax(&top, most);
      __syncthreads();
      const int exponent = max(1u, top >> 23);  // all magnitudes are below 2^(exponent - 126)
      const u32 lower = exponent > 26 ? (u32)(exponent - 26) << 23 : 1;
      if (top == 0) break;
      const double up = power_of_2(150 - exponent), down = power_of_2(exponent - 175);
      for (i64 base = first; base < last; base += ROWS) {
        const u32 rows = min((i64)ROWS, last - base);
        auto stream = [&](u32 row) { return window.stream + (u32)(base + row); };
        auto active = [&](u32 row) {
          const u32 m = magnitude(x[base + row]);
          return m >= lower && m < upper;
        };
        auto add = [&](auto lanes) {
          constexpr int n = decltype(lanes)::count;
          each_stream<n>(order, counts, sorted, table, window.seed, block, rows, stream, active,
              [&](u32 row, bool on, const Walk& walk, u32 lane) {
                const double value = x[base + row] * up, whole = floor(value);
                const u32 h = (u32)(int)whole, l = (u32)((value - whole) * 33554432.0);
                walk.template visit<n>(lane, [&](Walk::Spot spot) {
                  atomicAdd(&spot.in(high), h);
                  atomicAdd(&spot.in(low), l);
                });
              });
        };
        if (2 * rows >= 3 * THREADS) add(Lanes<1>());
        else if (4 * rows >= THREADS) add(Lanes<4>());
        else add(Lanes<32>());
      }
      // The last barrier of each_stream is between the sums and here.
      for (i64 i = from + threadIdx.x; i < to; i += THREADS) {
        const i64 sum = (i64)(int)high[i] * 33554432 + low[i];
        if (sum) out[i] += (float)(sum * down);
      }
      __syncthreads();
      for (u32 i = threadIdx.x; i < 2 * window.size; i += THREADS) low[i] = 0;
      upper = lower;
      if (upper == 1) break;
      __syncthreads();
    }
    if (__syncthreads_or(strange)) {
      for (i64 s = first; s < last; s++) {
        if (magnitude(x[s]) < FINITE) continue;
        Walk(table, window.seed, window.stream + (u32)s, block).visit<THREADS>(threadIdx.x, [&](Walk::Spot spot) {
          const i64 i = spot.index();
          if (i >= from && i < to) out[i] += x[s];
        });
        __syncthreads();
      }
    }
  }
}

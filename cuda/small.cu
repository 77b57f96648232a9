// y[j] = sum of x[s] over the streams s that have position j, for small matrices: one launch, one order of
// addition, nothing to zero. A thread block owns POSITIONS neighbouring positions and asks each active stream
// by the inverse permutation whether it has them, a stream to a lane. Work grows with the active streams.
//
// X: operand (COUNTS: a mask), Y: result.
#include "stream.cuh"

constexpr u32 STREAMS = 4096, WARPS = THREADS / 32, RUN = STREAMS / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
small(const u32* table_, const u32* seed, const u32* offset, const X* x, Y* y, i64 streams, i64 length) {
  __shared__ u32 table[TABLE], found[WARPS];
  __shared__ u16 active[STREAMS];
  __shared__ Y values[WARPS][32], sums[WARPS][POSITIONS];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  // Active streams in ascending order: a warp looks through a run of neighbours.
  const u32 run = (streams + THREADS - 1) / THREADS, from = warp * run * 32;
  u32 masks[RUN], n = 0;
#pragma unroll
  for (u32 i = 0; i < RUN; i++) {
    const u32 s = from + i * 32 + lane;
    masks[i] = i < run ? __ballot_sync(0xFFFFFFFFu, s < streams && x[s] != X(0)) : 0;
    n += __popc(masks[i]);
  }
#pragma unroll
  for (u32 i = threadIdx.x; i < TABLE; i += THREADS) table[i] = table_[i];
  const Window window(table_, seed, offset, length);
  if (lane == 0) found[warp] = n;
  __syncthreads();
  u32 at = 0, total = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; w++) {
    if (w < warp) at += found[w];
    total += found[w];
  }
#pragma unroll
  for (u32 i = 0; i < RUN; i++) {
    if (masks[i] >> lane & 1) active[at + __popc(masks[i] & ((1u << lane) - 1))] = from + i * 32 + lane;
    at += __popc(masks[i]);
  }
  __syncthreads();

  // The positions of a thread block may lie in two blocks of the walk.
  const i64 first = (i64)blockIdx.x * POSITIONS, last = min(first + POSITIONS, length);
  Y sum = 0;
  for (i64 begin = first; begin < last;) {
    const u32 block = (window.first + begin) / window.size;
    const i64 start = window.start(block), end = min(last, start + (i64)window.size);
    for (u32 base = warp * 32; base < total; base += THREADS) {
      const bool on = base + lane < total;
      const u32 s = on ? active[base + lane] : 0;
      auto inverse = Walk(table, window.seed, window.stream + s, block).inverse();
      if (!on) inverse.count = 0;
      if (!COUNTS) values[warp][lane] = x[s];
      u32 mine = 0;  // the streams of this batch that have this lane's position
#pragma unroll
      for (int k = 0; k < POSITIONS; k++) {  // one after the end holds nothing that counts
        const u32 mask = __ballot_sync(0xFFFFFFFFu, inverse.holds((u32)(begin - start) + k));
        if (lane == begin - first + k && begin + k < end) mine = mask;
      }
      __syncwarp();
      if (COUNTS) sum += __popc(mine);
      else
        for (; mine; mine &= mine - 1) sum += values[warp][__ffs(mine) - 1];
      __syncwarp();
    }
    begin = end;
  }
  if (lane < POSITIONS) sums[warp][lane] = sum;
  __syncthreads();
  if (threadIdx.x < POSITIONS && first + threadIdx.x < length) {
    Y all = 0;
    for (u32 w = 0; w < WARPS; w++) all += sums[w][threadIdx.x];
    y[first + threadIdx.x] = all;
  }
}

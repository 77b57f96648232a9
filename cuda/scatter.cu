// y[j] += x[s] for every position j of every stream s. A thread block keeps one block of y in shared memory,
// adds a slot of the streams to it, and then adds it to y. Sums of integers are exact in any order; those of
// floats are not (`ordered.cu` adds them in one order). Grid: blocks, times slots of streams.
//
// X: operand, Y: result, COUNTS: X is a mask, LANES that share a row of values, TILE: y's block fits.
#include "stream.cuh"

constexpr bool MASK = COUNTS;

#if COUNTS
constexpr u32 SEGMENTS = 128;

// The active streams, segment by segment: list[segment * span ..] holds counts[segment] of them. Zeroes y too.
extern "C" __global__ void __launch_bounds__(256)
compact(const u8* x, u32* list, u32* counts, Y* y, i64 streams, i64 length, i64 span) {
  __shared__ u32 warps[8];
  for (i64 j = (i64)blockIdx.x * 256 + threadIdx.x; j < length; j += (i64)gridDim.x * 256) y[j] = 0;
  const i64 begin = blockIdx.x * span, end = min(begin + span, streams);
  if (begin >= streams) return;
  u32 found = 0;
  for (i64 base = begin; base < end; base += 256 * 16) {
    const i64 mine = base + threadIdx.x * 16;
    u32 bits = 0;
    if (mine + 16 <= end && ((u64)(x + mine) & 15) == 0) {
      const uint4 v = *(const uint4*)(x + mine);
      const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 16; i++) bits |= (words[i / 4] >> i % 4 * 8 & 0xFF ? 1u : 0u) << i;
    } else {
      for (int i = 0; i < 16 && mine + i < end; i++) bits |= (x[mine + i] ? 1u : 0u) << i;
    }
    const u32 n = __popc(bits), sum = prefix_sum(n);
    if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    u32 at = found + sum - n;
    for (int w = 0; w < 8; w++) {
      if (w < threadIdx.x / 32) at += warps[w];
      found += warps[w];
    }
    for (; bits; bits &= bits - 1) list[begin + at++] = mine + __ffs(bits) - 1;
    __syncthreads();
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = found;
}
#endif

template <int lanes, bool shared, class Stream, class Value>
__device__ __forceinline__ void add_rows(Order& order, u16* counts, u16* sorted, const u32* table,
                                         const Window& window, u32 block, u32 rows, Y* tile, Y* y, Stream stream,
                                         Value value) {
  const i64 start = window.start(block);
  auto active = [&](u32 row) { return MASK || value(row) != Y(0); };
  auto add = [&](u32 row, bool on, const Walk& walk, u32 lane) {
    const Y v = on ? value(row) : Y(0);
    walk.template visit<lanes>(lane, [&](Walk::Spot spot) {
      if (shared) {
        atomicAdd(&spot.in(tile), v);
      } else {
        const i64 j = start + spot.index();
        if (j >= 0 && j < window.length) atomicAdd(&y[j], v);
      }
    });
  };
  each_stream<lanes>(order, counts, sorted, table, window.seed, block, rows, stream, active, add);
}

__device__ __forceinline__ void clear(Y* tile, u32 size) {
  for (u32 i = threadIdx.x; i < (size * sizeof(Y) + 15) / 16; i += THREADS) ((uint4*)tile)[i] = make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void flush(const Y* tile, const Window& window, u32 block, Y* y) {
  const i64 start = window.start(block);
  for (u32 i = threadIdx.x; i < window.size; i += THREADS) {
    const i64 j = start + i;
    const Y value = tile[i];
    if (j < 0 || j >= window.length) continue;
    if (gridDim.y == 1) y[j] = value;
    else if (value != Y(0)) atomicAdd(&y[j], value);
  }
}

#if COUNTS
// Events: the work grows with the active streams that `compact` found.
extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
scatter(const u32* table, const u32* seed, const u32* offset, const u32* list, const u32* segments, Y* y,
        i64 length, i64 span, i64 n) {
  constexpr u32 ROWS = 2048;
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u32 ends[SEGMENTS], chosen[ROWS];
  __shared__ u16 counts[ROWS], sorted[ROWS];
  Y* tile = (Y*)memory;
  const Window window(table, seed, offset, length);
  if (blockIdx.x >= window.blocks) return;
  const u32 block = window.block + blockIdx.x;

  if (threadIdx.x < 32) {  // inclusive prefix sums, a run of segments to a lane
    constexpr u32 RUN = SEGMENTS / 32;
    u32 found[RUN], sum = 0;
#pragma unroll
    for (u32 i = 0; i < RUN; i++) sum += found[i] = threadIdx.x * RUN + i < n ? segments[threadIdx.x * RUN + i] : 0;
    u32 before = prefix_sum(sum) - sum;
#pragma unroll
    for (u32 i = 0; i < RUN; i++) ends[threadIdx.x * RUN + i] = before += found[i];
  }
  __syncthreads();
  const u32 total = ends[SEGMENTS - 1];
  const u32 begin = share(total, blockIdx.y, gridDim.y), end = share(total, blockIdx.y + 1, gridDim.y);
  if (begin == end) return;

  const bool shared = TILE && (u64)(end - begin) * Walk::typical(table) > window.size / 8;
  if (shared) clear(tile, window.size);
  for (u32 first = begin; first < end; first += ROWS) {
    const u32 rows = min(ROWS, end - first);
    __syncthreads();
    for (u32 row = threadIdx.x; row < rows; row += THREADS) {
      u32 segment = 0;  // the first whose end is beyond this entry
      for (u32 step = SEGMENTS / 2; step; step >>= 1)
        if (ends[segment + step - 1] <= first + row) segment += step;
      chosen[row] = list[segment * span + (first + row - (segment ? ends[segment - 1] : 0))];
    }
    __syncthreads();
    auto stream = [&](u32 row) { return window.stream + chosen[row]; };
    auto one = [](u32) { return Y(1); };
    if (!shared) {
      add_rows<32, false>(order, counts, sorted, table, window, block, rows, tile, y, stream, one);
    } else if (rows * 4 >= THREADS * 3) {
      add_rows<1, true>(order, counts, sorted, table, window, block, rows, tile, y, stream, one);
    } else if (rows * 8 >= THREADS) {
      add_rows<8, true>(order, counts, sorted, table, window, block, rows, tile, y, stream, one);
    } else {
      add_rows<32, true>(order, counts, sorted, table, window, block, rows, tile, y, stream, one);
    }
  }
  if (shared) flush(tile, window, block, y);
}
#else
// Values: every stream of the slot, but those whose value is 0. y is zeroed before when there are slots.
extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
scatter(const u32* table, const u32* seed, const u32* offset, const X* x, Y* y, i64 streams, i64 length) {
  constexpr u32 ROWS = 2048;
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u16 counts[ROWS], sorted[ROWS];
  Y* tile = (Y*)memory;
  const Window window(table, seed, offset, length);
  if (blockIdx.x >= window.blocks) return;
  const u32 block = window.block + blockIdx.x;
  const i64 begin = share(streams, blockIdx.y, gridDim.y), end = share(streams, blockIdx.y + 1, gridDim.y);
  if (TILE) clear(tile, window.size);
  __syncthreads();
  for (i64 first = begin; first < end; first += ROWS) {
    const u32 rows = min((i64)ROWS, end - first);
    auto stream = [&](u32 row) { return window.stream + (u32)(first + row); };
    auto value = [&](u32 row) { return x[first + row]; };
    add_rows<LANES, TILE>(order, counts, sorted, table, window, block, rows, tile, y, stream, value);
  }
  if (TILE) flush(tile, window, block, y);
}
#endif

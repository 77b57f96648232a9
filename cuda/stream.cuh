// What every kernel shares: the window of the matrix that it works on, and a fair division of a
// block's streams among the lanes of a thread block.
#pragma once
#include "walk.cuh"

// seed: high and low word; offset: first stream, then low and high word of the first position.
struct Window {
  u64 seed, first;
  i64 length;
  u32 stream, block, blocks, size;  // size: positions in a block
  __device__ Window(const u32* table, const u32* seed_, const u32* offset, i64 length_) : length(length_) {
    seed = Walk::start(seed_[0], seed_[1]);
    stream = offset[0];
    first = (u64)offset[2] << 32 | offset[1];
    size = Walk::size_of(table);
    block = first / size;
    blocks = (u32)((first + length - 1) / size) - block + 1;
  }
  // Where a block starts, counted from the window's first position: below 0 when it starts before it.
  __device__ i64 start(u32 block) const { return (i64)((u64)block * size - first); }
};

// Where the share of `i` begins when `of` take about the same of n, the last ones one more.
__device__ __forceinline__ u32 share(u32 n, u32 i, u32 of) {
  if (of == 1) return i * n;
  const u32 each = n / of, even = of - (n - of * each);
  return i * each + (i > even ? i - even : 0);
}

template <int lanes, class T> __device__ __forceinline__ T sum_over(T value) {
#pragma unroll
  for (int o = lanes / 2; o; o >>= 1) value += __shfl_xor_sync(0xFFFFFFFFu, value, o);
  return value;
}

// Inclusive, over the lanes of a warp.
__device__ __forceinline__ u32 prefix_sum(u32 value) {
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const u32 other = __shfl_up_sync(0xFFFFFFFFu, value, o);
    if (threadIdx.x % 32 >= o) value += other;
  }
  return value;
}

// Streams of one block, most work first, so that the lanes of a warp end together: their counts differ by
// a quarter and more where a block holds few. Which lane takes a stream changes no sum.
struct Order {
  static constexpr u32 bins = 64;
  u32 taken, ends[bins];
};

// Calls body(row, on, walk, lane) for every row below `rows`, `lanes` lanes of a warp to a row. All threads of
// the block must come, and whole warps call: a warp's last rows may be off. Rows that `active` refuses have no
// positions. The block's shared memory is in step before the first call and after the last.
template <int lanes, class Stream, class Active, class Body>
__device__ __forceinline__ void each_stream(Order& order, u16* counts, u16* sorted, const u32* table, u64 seed,
                                            u32 block, u32 rows, Stream stream, Active active, Body body) {
  constexpr u32 groups = 32 / lanes;
  const u32 lane = threadIdx.x % lanes, group = threadIdx.x % 32 / lanes;
  auto count_of = [&](u32 row) { return active(row) ? Walk::count_of(table, seed, stream(row), block) : 0; };
  if (lanes == 32 || !Walk::counted) {  // nothing to sort: the lanes of a warp have one count, or nobody knows it
    __syncthreads();
    for (u32 first = threadIdx.x / 32 * groups; first < rows; first += blockDim.x / 32 * groups) {
      const bool on = first + group < rows;
      const u32 row = on ? first + group : 0;
      body(row, on, Walk(on ? count_of(row) : 0, table, seed, stream(row), block), lane);
    }
    __syncthreads();
    return;
  }
  for (u32 i = threadIdx.x; i < Order::bins; i += blockDim.x) order.ends[i] = 0;
  __syncthreads();
  const u32 lo = Walk::least(table), span = Walk::most(table) - lo + 1;
  int shift = 0;
  while (span >> shift >= Order::bins) shift++;
  auto bin = [&](u32 count) { return Order::bins - 1 - (count < lo ? 0 : (count - lo) >> shift); };
  for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
    const u32 count = count_of(row);
    counts[row] = count;
    atomicAdd(&order.ends[bin(count)], 1);
  }
  __syncthreads();
  if (threadIdx.x < 32) {  // exclusive prefix sums of the bins, two to a lane
    const u32 first = order.ends[2 * threadIdx.x], both = first + order.ends[2 * threadIdx.x + 1];
    const u32 before = prefix_sum(both) - both;
    order.ends[2 * threadIdx.x] = before;
    order.ends[2 * threadIdx.x + 1] = before + first;
    order.taken = 0;
  }
  __syncthreads();
  for (u32 row = threadIdx.x; row < rows; row += blockDim.x) sorted[atomicAdd(&order.ends[bin(counts[row])], 1)] = row;
  __syncthreads();
  for (;;) {
    u32 i = 0;
    if (threadIdx.x % 32 == 0) i = atomicAdd(&order.taken, groups);
    i = __shfl_sync(0xFFFFFFFFu, i, 0) + group;
    if (i - group >= rows) break;
    const u32 row = i < rows ? sorted[i] : 0;
    body(row, i < rows, Walk(i < rows ? counts[row] : 0, table, seed, stream(row), block), lane);
  }
  __syncthreads();
}

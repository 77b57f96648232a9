// out[s] = sum of x over the positions of stream s. A thread block keeps one block of x in shared memory and
// draws its rows' positions in it, one block of x after the other; the sums of a row are added in one fixed
// order. Grid: ranges of `rows` streams, times parts of the blocks (summed by `sum_parts`).
//
// X: operand (u8: a mask, counted), Y: result, LANES that share a row, TILE: x fits in shared memory, PACKED: with
// a bit to an entry of a mask, for long blocks.
#include "stream.cuh"

constexpr bool MASK = sizeof(X) == 1;

// The block of x that begins at `start`, zeros outside the window. A mask becomes 0 and 1, and is counted.
__device__ __forceinline__ void load_tile(X* tile, u32 size, const X* x, i64 start, i64 length, u32* active) {
  if (!MASK) {
    for (u32 i = threadIdx.x; i < size; i += THREADS) {
      const i64 j = start + i;
      tile[i] = j >= 0 && j < length ? x[j] : X(0);
    }
    return;
  }
  const bool whole = start >= 0 && start + (i64)size <= length && ((u64)(x + start) & 15) == 0;
  u32 found = 0;
  for (u32 i = threadIdx.x; i < size / 16; i += THREADS) {
    u32 words[4] = {};
    if (whole) {
      const uint4 v = ((const uint4*)(x + start))[i];
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else {
      for (int k = 0; k < 16; k++) {
        const i64 j = start + i * 16 + k;
        if (j >= 0 && j < length) words[k / 4] |= (u32)x[j] << k % 4 * 8;
      }
    }
#pragma unroll
    for (int w = 0; w < 4; w++) {
      words[w] = __vcmpne4(words[w], 0) & 0x01010101;
      found += __popc(words[w]);
    }
    if (PACKED) {
      u32 bits = 0;
#pragma unroll
      for (int w = 0; w < 4; w++) bits |= (words[w] * 0x10204080 >> 28) << 4 * w;
      ((u16*)tile)[i] = bits;
    } else {
      ((uint4*)tile)[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
  found = sum_over<32>(found);
  if (threadIdx.x % 32 == 0 && found) atomicAdd(active, found);
}

extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
gather(const u32* table_, const u32* seed, const u32* offset, const X* x, Y* out, i64 streams, i64 length, i64 rows_) {
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u32 table[Walk::table_words], active, listed;
  const Window window(table_, seed, offset, length);
  const u32 tile_size = (window.size + 127) / 128 * 128;  // with elements that no position has
  X* tile = (X*)memory;
  Y* sums = (Y*)(tile + (TILE ? tile_size / (PACKED ? 8 : 1) : 0));
  u16 *counts = (u16*)(sums + rows_), *sorted = counts + rows_;
  u16* events = sorted + rows_;  // positions of a mask's few active entries

  const i64 row0 = blockIdx.x * rows_;
  const u32 rows = min(rows_, streams - row0);
  const u32 begin = share(window.blocks, blockIdx.y, gridDim.y), end = share(window.blocks, blockIdx.y + 1, gridDim.y);
#pragma unroll
  for (u32 i = threadIdx.x; i < Walk::table_words; i += THREADS) table[i] = table_[i];
  for (u32 i = threadIdx.x; i < rows; i += THREADS) sums[i] = 0;
  auto stream = [&](u32 row) { return window.stream + (u32)(row0 + row); };
  auto all = [](u32) { return true; };

  for (u32 block = window.block + begin; block < window.block + end; block++) {
    const i64 start = window.start(block);
    u32 n = 1;
    if (MASK && TILE) {
      if (threadIdx.x == 0) active = listed = 0;
      __syncthreads();
    }
    if (TILE) load_tile(tile, tile_size, x, start, length, &active);
    if (MASK && TILE) {
      __syncthreads();
      n = active;
      if (n == 0) continue;
    }
#if EVENTS  // a test of one position costs about as much as drawing one
    const u32 few = TILE ? min(Walk::typical(table) * 3 / 4, (u32)EVENTS) : 0;
    if (n <= few)
      for (u32 i = threadIdx.x; i < window.size; i += THREADS)
        if (tile[i]) events[atomicAdd(&listed, 1)] = i;
#endif
    auto add = [&](u32 row, bool on, const Walk& walk, u32 lane) {
      Y sum = 0;
#if EVENTS
      if (n <= few) {
        const auto inverse = walk.inverse();
        for (u32 i = lane; i < n; i += LANES) sum += inverse.holds(events[i]);
      } else
#endif
      {
        auto take = [&](Walk::Spot spot) {
          if (TILE && PACKED) {
            sum += ((const u32*)tile)[spot.index() / 32] >> spot.index() % 32 & 1;
          } else if (TILE) {
            sum += spot.in(tile);
          } else {
            const i64 j = start + spot.index();
            if (j >= 0 && j < length) sum += MASK ? X(x[j] != 0) : x[j];
          }
        };
        if (LANES == 32) walk.template visit_ahead<LANES>(lane, take);
        else walk.template visit<LANES>(lane, take);
      }
      sum = sum_over<LANES>(sum);
      if (on && lane == 0) sums[row] += sum;
    };
    each_stream<LANES>(order, counts, sorted, table, window.seed, block, rows, stream, all, add);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < rows; i += THREADS) out[blockIdx.y * streams + row0 + i] = sums[i];
}

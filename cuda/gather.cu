// out[s] = sum of x over the positions of stream s. A thread block keeps one block of x in shared memory and
// draws its rows' positions in it, one block of x after the other; the sums of a row are added in one fixed
// order. Grid: ranges of `rows` streams, times parts of the blocks (summed by `sum_parts`).
//
// X: operand (u8: a mask, counted), Y: result, LANES that share a row, TILE: x fits in shared memory.
#include "stream.cuh"

constexpr bool MASK = sizeof(X) == 1;

extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
gather(const u32* table_, const u32* seed, const u32* offset, const X* x, Y* out, i64 streams, i64 length, i64 rows_) {
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u32 table[TABLE];
  X* tile = (X*)memory;
  Y* sums = (Y*)(tile + (TILE ? Walk::size : 0));
  u16 *counts = (u16*)(sums + rows_), *sorted = counts + rows_;
  u16* events = sorted + rows_;  // positions of a mask's few active entries
  __shared__ u32 active;

  const Window window(seed, offset, length);
  const i64 row0 = blockIdx.x * rows_;
  const u32 rows = min(rows_, streams - row0);
  const u32 begin = (u64)window.blocks * blockIdx.y / gridDim.y, end = (u64)window.blocks * (blockIdx.y + 1) / gridDim.y;
  for (u32 i = threadIdx.x; i < THRESHOLDS + table_[SIZE]; i += THREADS) table[i] = table_[i];
  for (u32 i = threadIdx.x; i < rows; i += THREADS) sums[i] = 0;
  if (threadIdx.x == 0) active = 0;
  __syncthreads();
  // A test of one position costs about as much as drawing one.
  const u32 typical = table[LO] + table[GUIDE + 128], few = MASK ? min(typical * 3 / 4, (u32)EVENTS) : 0;

  auto stream = [&](u32 row) { return window.stream + (u32)(row0 + row); };
  auto all = [](u32) { return true; };
  for (u32 block = window.block + begin; block < window.block + end; block++) {
    const i64 start = window.start(block);
    if (TILE) {
      for (u32 i = threadIdx.x; i < Walk::size; i += THREADS) {
        const i64 j = start + i;
        const X value = j >= 0 && j < length ? x[j] : X(0);
        tile[i] = MASK ? X(value != 0) : value;
        if (MASK && value != 0) {
          const u32 k = atomicAdd(&active, 1);
          if (k < EVENTS) events[k] = i;
        }
      }
    }
    __syncthreads();
    const u32 n = active;
    auto add = [&](u32 row, bool on, const Walk& walk, u32 lane) {
      Y sum = 0;
      if (MASK && TILE && n <= few) {
        const auto inverse = walk.inverse();
        for (u32 i = lane; i < n; i += LANES) sum += inverse.holds(events[i]);
      } else {
        walk.template visit<LANES>(lane, [&](Walk::Spot spot) {
          if (TILE) {
            sum += spot.in(tile);
          } else {
            const i64 j = start + spot.index();
            if (j >= 0 && j < length) sum += MASK ? X(x[j] != 0) : x[j];
          }
        });
      }
      sum = sum_over<LANES>(sum);
      if (on && lane == 0) sums[row] += sum;
    };
    if (!(MASK && TILE && n == 0)) each_stream<LANES>(order, counts, sorted, table, window.seed, block, rows, stream, all, add);
    __syncthreads();
    if (threadIdx.x == 0) active = 0;
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < rows; i += THREADS) out[blockIdx.y * streams + row0 + i] = sums[i];
}

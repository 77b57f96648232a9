// parts[slot][j] = sum of x[s] over the slot's streams s that have position j, in an order that is the same
// in every run. Warps draw a piece of a stream each, whose positions all differ, and add theirs in turn.
// Grid: blocks, times slots of streams, times columns.
//
// X: operand, Y: result, TILE: y's block fits in shared memory. `flags`, when there are any, are for `turn.cuh`.
#include "stream.cuh"
#include "turn.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
ordered(const u32* table, const u32* seed, const u32* offset, const X* x, Y* parts, i64 streams, i64 length,
        i64 columns, const u32* flags, i64 flag_count, i64 least) {
  if (flags && tensor_turn(table, flags, flag_count, least)) return;
  constexpr u32 HELD = 8, WARPS = THREADS / 32;
  extern __shared__ u64 memory[];
  __shared__ Walk::Place held[HELD][THREADS];
  const Window window(table, seed, offset, length);
  if (blockIdx.x >= window.blocks) return;
  const u32 block = window.block + blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 start = window.start(block);
  const i64 begin = share(streams, blockIdx.y, gridDim.y), end = share(streams, blockIdx.y + 1, gridDim.y);
  Y* tile = (Y*)memory;
  const i64 from = start < 0 ? -start : 0, to = min((i64)window.size, length - start);
  for (i64 column = blockIdx.z; column < columns; column += gridDim.z) {
    Y* out = parts + blockIdx.y * length * columns + column;  // of this slot
    for (i64 i = from + threadIdx.x; i < to; i += THREADS) {
      if (TILE) tile[i] = 0;
      else out[(start + i) * columns] = 0;
    }
    for (i64 first = begin; first < end; first += WARPS) {
      const i64 s = first + warp;
      const Y value = s < end ? Y(x[s * columns + column]) : Y(0);
      const u32 stream = window.stream + (u32)s;
      const Walk walk(value != Y(0) ? Walk::count_of(table, window.seed, stream, block) : 0, table, window.seed,
                      stream, block);
      auto cursor = walk.template cursor<32>(lane);
      for (bool more = true; __syncthreads_or(more);) {
        u32 n = 0;
        for (Walk::Spot spot; n < HELD && (more = cursor.next(spot));) held[n++][threadIdx.x] = spot.index();
        for (u32 turn = 0; turn < WARPS; turn++) {
          if (turn == warp) {
            for (u32 i = 0; i < n; i++) {
              const i64 k = held[i][threadIdx.x];
              if (TILE) tile[k] += value;
              else if (k >= from && k < to) out[(start + k) * columns] += value;
            }
          }
          __syncthreads();
        }
      }
    }
    __syncthreads();
    if (TILE)
      for (i64 i = from + threadIdx.x; i < to; i += THREADS) out[(start + i) * columns] = tile[i];
    __syncthreads();
  }
}

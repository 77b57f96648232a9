// Products with a matrix of several columns, without tensor cores: a warp draws 32 positions of a stream at a
// time, then its lanes go along the columns, each position once for all of them. Grid: ranges of streams,
// times columns by 32 * WIDE.
//
// X: operand (u8: a mask, counted), Y: result, ACROSS lanes go along the columns, WIDE columns to a lane.
// `flags`, when there are any, are for `turn.cuh`.
#include "stream.cuh"
#include "turn.cuh"

constexpr bool MASK = sizeof(X) == 1;
constexpr u32 WARPS = THREADS / 32;

__device__ __forceinline__ Y value_of(X x) { return MASK ? Y(x != 0) : Y(x); }

struct Lanes {
  u32 lane = threadIdx.x % 32, part = lane / ACROSS;
  i64 column, columns;
  __device__ Lanes(i64 columns_) : columns(columns_) { column = (i64)blockIdx.y * 32 * WIDE + lane % ACROSS; }
  __device__ bool has(int w) const { return column + w * 32 < columns; }
};

// Calls f(j) for every position j of the stream inside the window, on the ACROSS lanes of a part of the warp.
template <class F>
__device__ __forceinline__ void each_position(const Walk& walk, i64 start, i64 length, const Lanes& l, F f) {
  auto cursor = walk.template cursor<32>(l.lane);
  for (;;) {
    Walk::Spot spot;
    const bool here = cursor.next(spot);
    if (!__any_sync(0xFFFFFFFFu, here)) break;
    const i64 j = here ? start + spot.index() : -1, mine = j < length ? j : -1;
#pragma unroll 8
    for (int i = 0; i < ACROSS; i++) {
      const i64 j = __shfl_sync(0xFFFFFFFFu, mine, i * (32 / ACROSS) + l.part);
      if (j >= 0) f(j);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather_columns(const u32* table, const u32* seed, const u32* offset, const X* x, Y* out, i64 streams, i64 length,
               i64 columns, const u32* flags, i64 flag_count, i64 least) {
  if (flags && tensor_turn(table, flags, flag_count, least)) return;
  const Window window(table, seed, offset, length);
  const Lanes l(columns);
  for (i64 s = (i64)blockIdx.x * WARPS + threadIdx.x / 32; s < streams; s += (i64)gridDim.x * WARPS) {
    Y sum[WIDE] = {};
    for (u32 block = window.block; block < window.block + window.blocks; block++) {
      const Walk walk(table, window.seed, window.stream + (u32)s, block);
      each_position(walk, window.start(block), length, l, [&](i64 j) {
#pragma unroll
        for (int w = 0; w < WIDE; w++)
          if (l.has(w)) sum[w] += value_of(x[j * columns + l.column + w * 32]);
      });
    }
#pragma unroll
    for (int w = 0; w < WIDE; w++) {
      for (int o = ACROSS; o < 32; o *= 2) sum[w] += __shfl_xor_sync(0xFFFFFFFFu, sum[w], o);
      if (l.part == 0 && l.has(w)) out[s * columns + l.column + w * 32] = sum[w];
    }
  }
}

// y is zeroed before. Streams whose values are all 0 are not drawn.
extern "C" __global__ void __launch_bounds__(THREADS)
scatter_columns(const u32* table, const u32* seed, const u32* offset, const X* x, Y* y, i64 streams, i64 length,
                i64 columns, const u32* flags, i64 flag_count, i64 least) {
  if (flags && tensor_turn(table, flags, flag_count, least)) return;
  const Window window(table, seed, offset, length);
  const Lanes l(columns);
  for (i64 s = (i64)blockIdx.x * WARPS + threadIdx.x / 32; s < streams; s += (i64)gridDim.x * WARPS) {
    Y value[WIDE];
    bool any = false;
#pragma unroll
    for (int w = 0; w < WIDE; w++) {
      value[w] = l.has(w) ? value_of(x[s * columns + l.column + w * 32]) : Y(0);
      any |= value[w] != Y(0);
    }
    if (!__any_sync(0xFFFFFFFFu, any)) continue;
    for (u32 block = window.block + blockIdx.z; block < window.block + window.blocks; block += gridDim.z) {
      const Walk walk(table, window.seed, window.stream + (u32)s, block);
      each_position(walk, window.start(block), length, l, [&](i64 j) {
#pragma unroll
        for (int w = 0; w < WIDE; w++)
          if (value[w] != Y(0)) atomicAdd(&y[j * columns + l.column + w * 32], value[w]);
      });
    }
  }
}

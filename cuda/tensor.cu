// Products with a matrix of many columns on tensor cores. A thread block draws a tile of the pattern as bits
// in shared memory, each nonzero once for all columns; its warps expand bits to fragments in registers and
// multiply them with fragments of x that `pack` has prepared. Counts are exact in int8 with int32 sums. A
// float32 is the exact sum of three bfloat16; products with 0 and 1 are exact; sums are added as float32.
//
// A slab is 128 indices of the contraction, four 32-bit words; within one, lane t of a fragment's four takes
// all of word t, so that a lane expands bits of its own words only. The order within a slab is free, as long
// as both operands keep it: step i of a slab takes bits i, i+16, i+8, i+24 (counts: i + 0, 8, 16, 24 and i+4..).
//
// COUNTS: x is a mask, MS streams in a tile (of WIDTH positions in a scatter), TILES of 8 columns to a thread
// block, MW by NW by KW warps along rows, columns and contraction, DRAW lanes to a stream, ORDERED: each slot of
// a scatter keeps its own sums.
#include "stream.cuh"
#include "turn.cuh"

#if COUNTS
typedef u8 X;
typedef u32 Y;
constexpr int SPLITS = 1, VECTORS = 2;
#else
typedef float X;
typedef float Y;
constexpr int SPLITS = 3, VECTORS = 4;
#endif
constexpr u32 SLAB = 128;

// x as fragments: for slab, tile of 8 columns, part of the split and vector, a uint4 to each lane. Index q
// of the contraction is row q - shift of x, shift being where the window begins in its first block. Zeroes y.
extern "C" __global__ void __launch_bounds__(256)
pack(const u32* offset, const X* x, uint4* packed, u32* flags, Y* y, i64 zeros, i64 rows, i64 columns, i64 slabs,
     i64 tiles, i64 aligned) {
  const i64 shift = aligned ? offset[1] & (Walk::size - 1) : 0, all = slabs * tiles * 32;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < zeros; i += (i64)gridDim.x * 256) y[i] = 0;
  bool strange = false;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < all; i += (i64)gridDim.x * 256) {
    const u32 lane = i % 32;
    const i64 tile = i / 32 % tiles, slab = i / 32 / tiles, column = tile * 8 + lane / 4;
    const i64 row = slab * SLAB + lane % 4 * 32 - shift;
    auto value = [&](int bit) {
      const i64 r = row + bit;
      return column < columns && r >= 0 && r < rows ? x[r * columns + column] : X(0);
    };
    uint4* out = packed + (slab * tiles + tile) * (SPLITS * VECTORS * 32) + lane;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      u32 words[SPLITS][4];
#pragma unroll
      for (int w = 0; w < 4; w++) {
        const int step = 2 * v + w / 2, half = w % 2;
#if COUNTS
        u32 word = 0;
        for (int k = 0; k < 4; k++) word |= (value(step + 4 * half + 8 * k) ? 1u : 0u) << 8 * k;
        words[0][w] = word;
#else
        for (int s = 0; s < SPLITS; s++) words[s][w] = 0;
        for (int k = 0; k < 2; k++) {
          float rest = value(step + 8 * half + 16 * k);
          strange |= !(fabsf(rest) < __int_as_float(0x7F800000));
          for (int s = 0; s < SPLITS; s++) {  // the 8 leading bits of what is left
            const u32 bits = __float_as_uint(rest) & 0xFFFF0000;
            words[s][w] |= bits >> 16 << 16 * k;
            rest -= __uint_as_float(bits);
          }
        }
#endif
      }
#pragma unroll
      for (int s = 0; s < SPLITS; s++)
        out[(s * VECTORS + v) * 32] = make_uint4(words[s][0], words[s][1], words[s][2], words[s][3]);
    }
  }
  const bool any = __syncthreads_or(strange);
  if (threadIdx.x == 0) flags[blockIdx.x] = any;
}

#if COUNTS
__device__ __forceinline__ u32 expand(u32 word, int step, int half) { return word >> (step + 4 * half) & 0x01010101; }

__device__ __forceinline__ void multiply(u32* c, const u32* a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
__device__ __forceinline__ u32 expand(u32 word, int step, int half) {
  return (word >> (step + 8 * half) & 0x00010001) * 0x3F80;  // 1.0 where the bit is set
}

__device__ __forceinline__ void multiply(float* c, const u32* a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

constexpr int OWN = TILES / NW;  // tiles of 8 columns to a warp
struct Sums {
  Y at[2][OWN][4];  // two fragments of 16 rows
};

// sums += (bits of 32 rows of one slab) x (that slab of x). bits(row) is this lane's word of a row.
template <class Bits> __device__ __forceinline__ void add_slab(Sums& sums, const uint4* x, Bits bits) {
  const u32 g = threadIdx.x % 32 / 4;
  u32 words[2][2];
#pragma unroll
  for (int m = 0; m < 2; m++) words[m][0] = bits(16 * m + g), words[m][1] = bits(16 * m + g + 8);
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    u32 a[2][2][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int w = 0; w < 4; w++) a[i][m][w] = expand(words[m][w % 2], 2 * v + i, w / 2);
#pragma unroll
    for (int n = 0; n < OWN; n++) {
      uint4 b[SPLITS];
#pragma unroll
      for (int s = 0; s < SPLITS; s++) b[s] = x[((n * SPLITS + s) * VECTORS + v) * 32];
#pragma unroll
      for (int m = 0; m < 2; m++) {
#if COUNTS
        multiply(sums.at[m][n], a[0][m], b[0].x, b[0].y);
        multiply(sums.at[m][n], a[1][m], b[0].z, b[0].w);
#else
        // Tensor cores cut sums off where float32 rounds them: only short sums are theirs, small parts first.
        float sum[4] = {};
#pragma unroll
        for (int s = SPLITS - 1; s >= 0; s--) {
          multiply(sum, a[0][m], b[s].x, b[s].y);
          multiply(sum, a[1][m], b[s].z, b[s].w);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) sums.at[m][n][k] += sum[k];
#endif
      }
    }
  }
}

// Calls f(row, column, two neighbours) for the sums of this lane, rows of 32 and columns of the warp's.
template <class F> __device__ __forceinline__ void each_pair(const Sums& sums, F f) {
  const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int n = 0; n < OWN; n++)
#pragma unroll
      for (int h = 0; h < 2; h++) f(16 * m + g + h * 8, n * 8 + 2 * t, &sums.at[m][n][2 * h]);
}

// to[0..1] += v[0..1], in one operation where there is one; `even` says that `to` is aligned for it.
__device__ __forceinline__ void add_pair(Y* to, const Y* v, bool even, bool second) {
#if COUNTS
  if (even) {  // the low count cannot overflow into the high one
    atomicAdd((u64*)to, (u64)v[1] << 32 | v[0]);
    return;
  }
#elif __CUDA_ARCH__ >= 900
  if (even) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v[0]), "f"(v[1]) : "memory");
    return;
  }
#endif
  atomicAdd(to, v[0]);
  if (second) atomicAdd(to + 1, v[1]);
}

struct Warp {
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = warp % NW, m = warp / NW % MW, k = warp / NW / MW;
};

__device__ __forceinline__ const uint4* fragments(const uint4* packed, i64 slab, i64 tiles, const Warp& warp) {
  return packed + (slab * tiles + blockIdx.z * TILES + warp.n * OWN) * (SPLITS * VECTORS * 32) + warp.lane;
}

constexpr int THREADS_ = MW * NW * KW * 32;

#if GATHER
// Grid: tiles of MS streams, times parts of the blocks, times groups of TILES * 8 columns.
extern "C" __global__ void __launch_bounds__(THREADS_, 1)
gather_tensor(const u32* table, const u32* seed, const u32* offset, const uint4* packed, const u32* flags, Y* out,
              i64 streams, i64 length, i64 columns, i64 tiles, i64 flag_count, i64 least) {
  if (!tensor_turn(table, flags, flag_count, least)) return;
  constexpr u32 STRIDE = Walk::size / 32 + 4, SLABS = Walk::size / SLAB;  // 4: rows of a fragment in different banks
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u16 counts[MS], sorted[MS];
  u32* bits = (u32*)memory;
  const Window window(table, seed, offset, length);
  const Warp warp;
  const i64 row0 = (i64)blockIdx.x * MS;
  const u32 rows = min((i64)MS, streams - row0);
  const u32 begin = share(window.blocks, blockIdx.y, gridDim.y), end = share(window.blocks, blockIdx.y + 1, gridDim.y);
  Sums sums = {};
  for (u32 block = begin; block < end; block++) {
    for (u32 i = threadIdx.x; i < MS * STRIDE; i += THREADS_) bits[i] = 0;
    each_stream<DRAW>(order, counts, sorted, table, window.seed, window.block + block, rows,
        [&](u32 row) { return window.stream + (u32)(row0 + row); }, [](u32) { return true; },
        [&](u32 row, bool on, const Walk& walk, u32 lane) {
          walk.template visit<DRAW>(lane, [&](Walk::Spot spot) {
            const u32 k = spot.index();
            atomicOr(&bits[row * STRIDE + k / 32], 1u << k % 32);
          });
        });
    for (u32 slab = warp.k; slab < SLABS; slab += KW)
      add_slab(sums, fragments(packed, (i64)block * SLABS + slab, tiles, warp),
               [&](u32 row) { return bits[(warp.m * 32 + row) * STRIDE + slab * 4 + warp.lane % 4]; });
    __syncthreads();
  }
  Y* shared = (Y*)memory;  // (MS, TILES * 8)
  for (u32 k = 1; k < KW; k++) {  // the warps along the contraction, in their order
    if (warp.k == k)
      each_pair(sums, [&](u32 r, u32 c, const Y* v) {
        Y* to = &shared[(warp.m * 32 + r) * TILES * 8 + warp.n * OWN * 8 + c];
        to[0] = v[0], to[1] = v[1];
      });
    __syncthreads();
    if (warp.k == 0)
      for (int m = 0; m < 2; m++)
        for (int n = 0; n < OWN; n++)
          for (int i = 0; i < 4; i++)
            sums.at[m][n][i] += shared[(warp.m * 32 + 16 * m + warp.lane / 4 + i / 2 * 8) * TILES * 8 +
                                       (warp.n * OWN + n) * 8 + warp.lane % 4 * 2 + i % 2];
    __syncthreads();
  }
  if (warp.k == 0)
    each_pair(sums, [&](u32 r, u32 c, const Y* v) {
      const i64 row = row0 + warp.m * 32 + r, column = (i64)blockIdx.z * TILES * 8 + warp.n * OWN * 8 + c;
      if (row >= streams) return;
      Y* to = &out[(blockIdx.y * streams + row) * columns + column];
      if (column < columns) to[0] = v[0];
      if (column + 1 < columns) to[1] = v[1];
    });
}
#else
// Grid: windows of WIDTH positions, times slots of streams, times groups of TILES * 8 columns. y has been
// zeroed, or with ORDERED is one copy for each slot, which nobody else adds to.
extern "C" __global__ void __launch_bounds__(THREADS_, 1)
scatter_tensor(const u32* table, const u32* seed, const u32* offset, const uint4* packed, const u32* flags, Y* y,
               i64 streams, i64 length, i64 columns, i64 tiles, i64 flag_count, i64 least) {
  if (!tensor_turn(table, flags, flag_count, least)) return;
  constexpr u32 STRIDE = WIDTH + 8, PIECES = Walk::size / WIDTH;
  extern __shared__ u64 memory[];
  __shared__ Order order;
  __shared__ u16 counts[MS], sorted[MS];
  u32* bits = (u32*)memory;  // bit s % 32 of word (s / 32, position)
  const Window window(table, seed, offset, length);
  if (blockIdx.x / PIECES >= window.blocks) return;
  const Warp warp;
  const u32 block = window.block + blockIdx.x / PIECES, base = blockIdx.x % PIECES * WIDTH;
  const i64 start = window.start(block) + base, groups = (streams + MS - 1) / MS;
  const i64 begin = share(groups, blockIdx.y, gridDim.y), end = share(groups, blockIdx.y + 1, gridDim.y);
  if (ORDERED) y += blockIdx.y * length * columns;
  for (i64 group = begin; group < end; group++) {
    const u32 rows = min((i64)MS, streams - group * MS);
    for (u32 i = threadIdx.x; i < MS / 32 * STRIDE; i += THREADS_) bits[i] = 0;
    each_stream<DRAW>(order, counts, sorted, table, window.seed, block, rows,
        [&](u32 row) { return window.stream + (u32)(group * MS + row); }, [](u32) { return true; },
        [&](u32 row, bool on, const Walk& walk, u32 lane) {
          walk.template visit<DRAW>(lane, [&](Walk::Spot spot) {
            const u32 k = spot.index() - base;
            if (PIECES == 1 || k < WIDTH) atomicOr(&bits[row / 32 * STRIDE + k], 1u << row % 32);
          });
        });
    for (u32 m = warp.m; m < WIDTH / 32; m += MW) {
      Sums sums = {};
      for (u32 slab = 0; slab < (rows + SLAB - 1) / SLAB; slab++)
        add_slab(sums, fragments(packed, group * (MS / SLAB) + slab, tiles, warp),
                 [&](u32 row) { return bits[(slab * 4 + warp.lane % 4) * STRIDE + m * 32 + row]; });
      each_pair(sums, [&](u32 r, u32 c, const Y* v) {
        const i64 j = start + m * 32 + r, column = (i64)blockIdx.z * TILES * 8 + warp.n * OWN * 8 + c;
        if (j < 0 || j >= length || column >= columns) return;
        Y* to = &y[j * columns + column];
        const bool second = column + 1 < columns;
        if (!ORDERED) {
          add_pair(to, v, columns % 2 == 0, second);
        } else {
          to[0] = group == begin ? v[0] : to[0] + v[0];
          if (second) to[1] = group == begin ? v[1] : to[1] + v[1];
        }
      });
    }
    __syncthreads();
  }
}
#endif

// A warp to a stream: its number of nonzeros, their positions in ascending order, or its row of the pattern.
#include "stream.cuh"

constexpr u32 WORDS = 512, PIECE = 32 * WORDS;  // of the pattern that a warp holds as bits
#define EACH_STREAM(s) \
  for (i64 s = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32; s < streams; s += (i64)gridDim.x * (THREADS / 32))

// Whole blocks from their keys alone; a block that the window cuts has to be walked.
extern "C" __global__ void __launch_bounds__(THREADS)
count(const u32* table, const u32* seed, const u32* offset, u32* counts, i64 streams, i64 length) {
  const Window window(table, seed, offset, length);
  const u32 lane = threadIdx.x % 32;
  auto cut = [&](u32 block) {
    const i64 start = window.start(block);
    return !Walk::counted || start < 0 || start + (i64)window.size > length;
  };
  const u32 step = Walk::counted && window.blocks > 1 ? window.blocks - 1 : 1;  // only the first and last are cut
  EACH_STREAM(s) {
    const u32 stream = window.stream + (u32)s;
    u32 n = 0;
    for (u32 i = lane; i < window.blocks; i += 32)
      if (!cut(window.block + i)) n += Walk(table, window.seed, stream, window.block + i).total();
    for (u32 i = 0; i < window.blocks; i += step) {
      if (!cut(window.block + i)) continue;
      const i64 start = window.start(window.block + i);
      Walk(table, window.seed, stream, window.block + i).visit<32>(lane, [&](Walk::Spot spot) {
        const i64 j = start + spot.index();
        n += j >= 0 && j < length;
      });
    }
    n = sum_over<32>(n);
    if (lane == 0) counts[s] = n;
  }
}

// Calls use(words, start, size) for every piece of the stream's pattern in a block, bit i of word w for position
// start + 32 w + i of the window. Positions come in any order when a piece holds the block, else ascending.
template <class F>
__device__ __forceinline__ void each_piece(u32* words, const u32* table, const Window& window, u32 stream, u32 block,
                                           F use) {
  const u32 lane = threadIdx.x % 32;
  const i64 start = window.start(block);
  const Walk walk(table, window.seed, stream, block);
  auto cursor = walk.template cursor<32>(lane);
  Walk::Spot spot;
  bool more = cursor.next(spot);
  for (u32 base = 0; base < window.size; base += PIECE) {
    const u32 size = min(PIECE, window.size - base);
    for (u32 w = lane; w < (size + 31) / 32; w += 32) words[w] = 0;
    __syncwarp();
    for (; more && spot.index() - base < PIECE; more = cursor.next(spot)) {
      const u32 k = spot.index() - base;
      if (start + base + k >= 0 && start + base + k < window.length) atomicOr(&words[k / 32], 1u << k % 32);
    }
    __syncwarp();
    use(words, start + base, size);
    __syncwarp();
  }
}

// The stream's positions go to positions[starts[s]..]; entries beyond the last are zeroed.
extern "C" __global__ void __launch_bounds__(THREADS)
fill(const u32* table, const u32* seed, const u32* offset, const int* starts, int* positions, i64 streams, i64 length,
     i64 capacity) {
  __shared__ u32 memory[THREADS / 32][WORDS];
  const Window window(table, seed, offset, length);
  const u32 lane = threadIdx.x % 32;
  u32* words = memory[threadIdx.x / 32];
  EACH_STREAM(s) {
    i64 at = starts[s];
    for (u32 block = window.block; block < window.block + window.blocks; block++) {
      each_piece(words, table, window, window.stream + (u32)s, block, [&](const u32* words, i64 start, u32 size) {
        for (u32 base = 0; base * 32 < size; base += 32) {
          const u32 w = base + lane;
          u32 bits = w * 32 < size ? words[w] : 0;
          const u32 sum = prefix_sum(__popc(bits));
          i64 mine = at + sum - __popc(bits);
          for (; bits; bits &= bits - 1, mine++)
            if (mine < capacity) positions[mine] = (int)(start + w * 32 + __ffs(bits) - 1);
          at += __shfl_sync(0xFFFFFFFFu, sum, 31);
        }
      });
    }
    if (s == streams - 1)
      for (i64 i = at + lane; i < capacity; i += 32) positions[i] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
dense(const u32* table, const u32* seed, const u32* offset, u8* pattern, i64 streams, i64 length) {
  __shared__ u32 memory[THREADS / 32][WORDS];
  const Window window(table, seed, offset, length);
  const u32 lane = threadIdx.x % 32;
  u32* words = memory[threadIdx.x / 32];
  EACH_STREAM(s) {
    for (u32 block = window.block + blockIdx.y; block < window.block + window.blocks; block += gridDim.y) {
      each_piece(words, table, window, window.stream + (u32)s, block, [&](const u32* words, i64 start, u32 size) {
        const i64 from = start < 0 ? -start : 0, to = min((i64)size, length - start);
        for (i64 k = from + lane; k < to; k += 32) pattern[s * length + start + k] = words[k / 32] >> k % 32 & 1;
      });
    }
  }
}

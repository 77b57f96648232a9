// The Bernoulli walk: the first K images of a keyed permutation of [0, 2^bits), with K binomial by inversion of
// 32 random bits. Compiles for the device and for the host.
#pragma once
#include "base.cuh"

enum { LO = 0, SIZE = 1, GUIDE = 2, THRESHOLDS = 258, TABLE = 1088 };  // words of a table

HD u64 mix64(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

template <int b, bool diagonal>
struct Bernoulli {
  static constexpr int bits = b;
  static constexpr u32 size = 1u << bits, table_words = TABLE;
  static constexpr bool counted = true;
  typedef u16 Place;

  // y holds a position in its top bits and zeros below: sums and products wrap as the walk wants them to.
  struct Spot {
    u32 y;
    HD u32 index() const { return y >> (32 - bits); }
    template <class T> HD T& in(T* tile) const {
      constexpr int scale = sizeof(T) == 8 ? 3 : sizeof(T) == 4 ? 2 : sizeof(T) == 2 ? 1 : 0;
      return *(T*)((char*)tile + (y >> (32 - bits - scale)));
    }
  };

  u32 count;       // K
  u32 drop;        // y of the diagonal entry, when it lies in this block and is left out
  u32 a[6], c[6];  // multipliers and summands of the rounds

  HD static u64 start(u32 high, u32 low) { return mix64((u64)high << 32 | low); }
  HD static constexpr u32 size_of(const u32*) { return size; }
  HD static u32 least(const u32* table) { return table[LO]; }
  HD static u32 most(const u32* table) { return table[LO] + table[SIZE]; }
  HD static u32 typical(const u32* table) { return table[LO] + table[GUIDE + 128]; }

  HD static u32 count_of(const u32* table, u64 seed, u32 stream, u32 block) {
    return count_at(table, mix64(state(seed, stream, block)) >> 32);
  }

  HD Bernoulli(const u32* table, u64 seed, u32 stream, u32 block) {
    count = count_at(table, set_keys(seed, stream, block));
  }

  HD Bernoulli(u32 known_count, const u32*, u64 seed, u32 stream, u32 block) : count(known_count) {
    set_keys(seed, stream, block);
  }

  template <int lanes, class F> HD void visit(u32 lane, F f) const {
    const u32 step = a[0] << (32 - bits);  // the walk's shift of k, folded into the first multiplier
    u32 y = lane * step + c[0];
#pragma unroll 4
    for (u32 k = lane; k < count; k += lanes, y += lanes * step) {
      const Spot spot = {later_rounds(y)};
      if (diagonal || spot.y != drop) f(spot);
    }
  }

  // The same in the same order, four draws at a time, those past the end without effect: quicker for a lane
  // that has few, where latency is all.
  template <int lanes, class F> HD void visit_ahead(u32 lane, F f) const {
    const u32 step = lanes * (a[0] << (32 - bits));
    u32 y = lane * (a[0] << (32 - bits)) + c[0];
    for (u32 k = lane; k < count; k += 4 * lanes, y += 4 * step) {
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        const Spot spot = {later_rounds(y + i * step)};
        if (k + i * lanes < count && (diagonal || spot.y != drop)) f(spot);
      }
    }
  }

  // What `visit` gives, one at a time.
  template <int lanes> struct Cursor {
    const Bernoulli& walk;
    u32 k, y;
    HD bool next(Spot& spot) {
      while (k < walk.count) {
        spot.y = walk.later_rounds(y);
        k += lanes, y += lanes * (walk.a[0] << (32 - bits));
        if (diagonal || spot.y != walk.drop) return true;
      }
      return false;
    }
  };
  template <int lanes> HD Cursor<lanes> cursor(u32 lane) const {
    return {*this, lane, lane * (a[0] << (32 - bits)) + c[0]};
  }

  // Position j is a nonzero exactly when the inverse permutation of j is below K.
  struct Inverse {
    u32 count, drop, a[6], c[6];
    HD bool holds(u32 position) const {
      u32 y = position << (32 - bits);
      if (!diagonal && y == drop) return false;
#pragma unroll
      for (int r = 5; r >= 0; r--) {
        if (r < 5) y ^= ((y >> shift(r)) ^ (2 * shift(r) < bits ? y >> 2 * shift(r) : 0)) & mask;
        y = (y - c[r]) * a[r];
      }
      return (y >> (32 - bits)) < count;
    }
  };

  HD Inverse inverse() const {
    Inverse i = {count, drop};
#pragma unroll
    for (int r = 0; r < 6; r++) {
      u32 x = a[r];  // right in the 3 lowest bits; each step of Newton doubles them
      for (int step = 0; step < 3; step++) x *= 2 - a[r] * x;
      i.a[r] = x;
      i.c[r] = c[r];
    }
    return i;
  }

  // Nonzeros of the whole block.
  HD u32 total() const {
    if (diagonal || drop == nowhere) return count;
    Inverse i = inverse();
    i.drop = nowhere;
    return count - (i.holds(drop >> (32 - bits)) ? 1 : 0);
  }

 private:
  static constexpr u32 mask = 0xFFFFFFFFu << (32 - bits);
  static constexpr u32 nowhere = 1;  // the y of no spot
  HD static constexpr int shift(int r) { return r & 1 ? bits / 2 : (bits + 1) / 2; }

  // seed + 0x9E3779B97F4A7C15 * (stream << 32 | block), of which the stream changes the high word alone
  HD static u64 state(u64 seed, u32 stream, u32 block) {
    const u64 z = seed + 0x9E3779B97F4A7C15ULL * block;
    return (u64)((u32)(z >> 32) + stream * 0x7F4A7C15u) << 32 | (u32)z;
  }

  HD static u32 count_at(const u32* table, u32 u) {
    const u32 size = table[SIZE];
    u32 k = table[GUIDE + (u >> 24)];
    while (k < size && table[THRESHOLDS + k] <= u) k++;
    return table[LO] + k;
  }

  // Returns u, the bits that draw the count.
  HD u32 set_keys(u64 seed, u32 stream, u32 block) {
    const u64 s = state(seed, stream, block), h1 = mix64(s), h2 = mix64(s ^ 0x6A09E667F3BCC909ULL);
    const u32 k[3] = {(u32)h1, (u32)(h2 >> 32), (u32)h2};
    const u32 C[6] = {0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F, 0x165667B1, 0xD1B54A33, 0x7FEB352D};
#pragma unroll
    for (int r = 0; r < 6; r++) {
      const u32 w = k[r % 3] * C[r] + k[(r + 1) % 3];
      a[r] = (w >> 16) | 1;
      c[r] = (w << 16) & mask;
    }
    const u64 offset = stream - ((u64)block << bits);
    drop = !diagonal && offset < size ? (u32)offset << (32 - bits) : nowhere;
    return h1 >> 32;
  }

  HD u32 later_rounds(u32 y) const {
#pragma unroll
    for (int r = 1; r < 6; r++) {
      y ^= (y >> shift(r - 1)) & mask;
      y = y * a[r] + c[r];
    }
    return y;
  }
};

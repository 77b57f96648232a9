// The renewal walk, the connections of brainevent 0.3: 32 lanes of a chunk, each with a generator of its own, jump
// ahead by uniform gaps. Compiles for the device and for the host.
#pragma once
#include "base.cuh"

enum { GAP = 0, CHUNK = 1 };  // words of a table: the bound of the gaps, the length of a chunk

template <bool diagonal>
struct Renewal {
  static constexpr u32 table_words = 2, lanes_of_chunk = 32;
  static constexpr bool counted = false;
  typedef u32 Place;

  struct Spot {
    u32 place;
    HD u32 index() const { return place; }
    template <class T> HD T& in(T* tile) const { return tile[place]; }
  };

  u32 key, span, length;  // of the lanes' generators, the bound of a jump, of the chunk: 0 when it is empty
  u32 drop;               // the diagonal entry, when it lies in this chunk and is left out

  HD static u64 start(u32 high, u32 low) { return low ^ 0xD1B54A35; }
  HD static u32 size_of(const u32* table) { return table[CHUNK]; }
  HD static u32 least(const u32* table) { return 0; }
  HD static u32 most(const u32* table) { return 1; }
  HD static u32 typical(const u32* table) { return table[GAP] ? (u32)(2 * (u64)table[CHUNK] / table[GAP]) : 0; }
  HD static u32 count_of(const u32* table, u64 seed, u32 stream, u32 block) { return table[GAP] ? 1 : 0; }

  HD Renewal(const u32* table, u64 seed, u32 stream, u32 block)
      : Renewal(count_of(table, seed, stream, block), table, seed, stream, block) {}

  HD Renewal(u32 count, const u32* table, u64 seed, u32 stream, u32 block) {
    key = (u32)seed ^ stream * 0x85EBCA6B ^ block * 0xC2B2AE35;
    span = table[GAP] - 1;
    length = count ? table[CHUNK] : 0;
    const u64 offset = stream - (u64)block * table[CHUNK];
    drop = !diagonal && offset < table[CHUNK] ? (u32)offset : 0xFFFFFFFF;
  }

  // Where one lane of the chunk is: its generator, its next step, and how many steps it has.
  struct Lane {
    u32 x, step, steps;
    HD Lane(const Renewal& walk, u32 lane) {
      steps = walk.length > lane ? (walk.length - lane + lanes_of_chunk - 1) / lanes_of_chunk : 0;
      step = 0;
      if (steps == 0) return;
      x = walk.key ^ lane * 0x27D4EB2D;
      x = (x ^ (x >> 16)) * 0x7FEB352D;
      x = (x ^ (x >> 15)) * 0x846CA68B;
      x ^= x >> 16;
      if (x == 0) x = 0x6D2B79F5;
      u32 gate;
      do {
        step = bounded(walk.span);
        gate = bounded(walk.span);
      } while (gate >= walk.span - step);
    }
    HD bool here() const { return step < steps; }
    HD void jump(u32 span) {
      const u32 more = bounded(span) + 1;
      step = more < steps - step ? step + more : steps;
    }

   private:
    HD u32 bounded(u32 n) {
      x ^= x << 13;
      x ^= x >> 17;
      x ^= x << 5;
      return (u64)x * n >> 32;
    }
  };

  template <int lanes, class F> HD void visit(u32 first, F f) const {
    for (u32 lane = first; lane < lanes_of_chunk; lane += lanes)
      for (Lane at(*this, lane); at.here(); at.jump(span)) {
        const Spot spot = {at.step * lanes_of_chunk + lane};
        if (diagonal || spot.place != drop) f(spot);
      }
  }
  template <int lanes, class F> HD void visit_ahead(u32 lane, F f) const { visit<lanes>(lane, f); }

  // With 32 lanes.
  template <int lanes> struct Cursor {
    static_assert(lanes == lanes_of_chunk, "a lane of a warp for each of the chunk's");
    const Renewal& walk;
    u32 lane;
    Lane at;
    HD bool next(Spot& spot) {
      for (; at.here();) {
        spot.place = at.step * lanes_of_chunk + lane;
        at.jump(walk.span);
        if (diagonal || spot.place != walk.drop) return true;
      }
      return false;
    }
  };
  template <int lanes> HD Cursor<lanes> cursor(u32 lane) const { return {*this, lane, Lane(*this, lane)}; }

  HD u32 total() const {
    u32 n = 0;
    visit<1>(0, [&](Spot) { n++; });
    return n;
  }
};

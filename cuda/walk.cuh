// Which positions has a block of a stream? The walk that this program is compiled for.
//
// What products ask of a walk: `size_of(table)`, positions in a block, and `typical(table)`, about how many of them
// are nonzero; `start(high, low)`, what all keys of a seed begin with; `count_of(table, seed, stream, block)`, a
// number in [least(table), most(table)] that tells the work, 0 for none, and when `counted` is that of nonzeros;
// `Walk(table, seed, stream, block)` or with that number before it; `visit<lanes>(lane, f)`, which calls f(spot) for
// every position that `lane` of `lanes` owns, and `cursor<lanes>(lane)`, whose `next(spot)` gives the same one at a
// time, ascending if `Place`, what holds a position in a block, is wider than 16 bits; `total()`; and a `Spot`, which
// gives an index or an element of a tile. One with random access also has `size` and `inverse().holds(position)`.
#pragma once
#ifdef RENEWAL
#include "renewal.cuh"
typedef Renewal<DIAGONAL> Walk;
#else
#include "bernoulli.cuh"
typedef Bernoulli<BITS, DIAGONAL> Walk;
#endif

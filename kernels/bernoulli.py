"""The Bernoulli walk: which positions has this block of this stream? (docs/walk.md is the definition.)

A walk answers in two steps, so that the products need not know which walk they run on: `prepare`
makes a batch of streams ready, `positions` then writes one stream's positions of the block, or
`group` and `across` those of 32 streams side by side: lanes along one stream waste the end of a vector,
lanes across streams only what the longest has more than the mean, which is less when counts are small.
Since positions are a permutation's first images, `hits` can ask the reverse: is this position drawn?
`table` holds the block's count distribution: lo, size, a guide of 256 entries, then the thresholds.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .ffi import address
from .frontend import njit
from .lanes import add32, greater, mul32
from .simd import I1, I16, I32, I64, LANES, count_up, load, splat, vectorized

NAME = "bernoulli"
BATCH = 64  # streams whose keys are drawn together
POSITION = np.uint16
LO, SIZE, GUIDE, THRESHOLDS, TABLE = 0, 1, 2, 258, 1088  # layout and length of `table`
KEYS = 8  # words of a prepared stream: count, unused, then w[0..5]
ACROSS = True  # 32 streams can be drawn side by side
INVERTIBLE = True  # and a position be looked up in them
COMPLEMENTED = True  # and the positions that a stream lacks be drawn
COUNTED = True  # a block's count is known before its positions
PADDED = False  # and every position written is one
ROUNDS = 6
ADDEND, COUNTS = 2 * LANES * ROUNDS, 4 * LANES * ROUNDS  # bytes in a group: factors, addends, counts
INVERSES = COUNTS + 2 * LANES
GROUP = INVERSES + 2 * LANES * ROUNDS

u32, u64 = np.uint32, np.uint64
C0, C1, C2 = u32(0x85EBCA6B), u32(0xC2B2AE35), u32(0x27D4EB2F)
C3, C4, C5 = u32(0x165667B1), u32(0xD1B54A33), u32(0x7FEB352D)


@njit
def mix64(z):
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


@njit
def start(seed):
    """What every key of the matrix begins with, from the two words of the seed."""
    return mix64((u64(seed[0]) << u64(32)) | u64(seed[1]))


@njit
def count(u, table):
    """lo + #{t in T : t <= u}, from the guide's entry on."""
    n, size = table[GUIDE + (u >> u32(24))], table[SIZE]
    while n < size and u >= table[THRESHOLDS + n]:
        n += u32(1)
    return table[LO] + n


@njit
def expected(table, block_length):
    """About how many positions a block has, to plan the work by."""
    return np.int64(table[LO]) + np.int64(table[SIZE]) // 2


@njit
def prepare(keys, table, mixed, streams, batch, block):
    """Draw the keys of `streams[:batch]` in `block`: K, -, w0..w5, each for all of a BATCH."""
    for i in range(batch):
        s = mixed + u64(0x9E3779B97F4A7C15) * ((u64(streams[i]) << u64(32)) | u64(block))
        h1, h2 = mix64(s), mix64(s ^ u64(0x6A09E667F3BCC909))
        k0, k1, k2 = u32(h1), u32(h2 >> u64(32)), u32(h2)
        keys[i] = u32(h1 >> u64(32))
        keys[2 * BATCH + i], keys[3 * BATCH + i] = add32(mul32(k0, C0), k1), add32(mul32(k1, C1), k2)
        keys[4 * BATCH + i], keys[5 * BATCH + i] = add32(mul32(k2, C2), k0), add32(mul32(k0, C3), k1)
        keys[6 * BATCH + i], keys[7 * BATCH + i] = add32(mul32(k1, C4), k2), add32(mul32(k2, C5), k0)
    for i in range(batch):
        keys[i] = count(keys[i], table)


@njit
def total(keys, i):
    """How many positions the whole block of prepared stream i has, without drawing them."""
    return keys[i]


@njit
def positions(out, keys, table, block_length, stream, i, block):
    """Write the positions of prepared stream i, in walk order; `out` has room for a vector more than a block."""
    drawn = np.int64(keys[i])
    permute_along(address(out), address(keys) + 4 * i, 0, drawn, bits_of(block_length))
    return drawn


@njit
def lacking(out, keys, table, block_length, stream, i, block):
    """The same for the block's other positions."""
    drawn = np.int64(keys[i])
    permute_along(address(out), address(keys) + 4 * i, drawn, block_length, bits_of(block_length))
    return block_length - drawn


@vectorized(None, types.int64, types.int64, types.int64, types.int64)
def split_keys(builder, group, keys, row, shift):
    """The factors and addends of 32 streams, from the words w[0..5]; `row` is the distance of two words in bytes."""
    mask = builder.shl(ir.Constant(I16, 0xFFFF), builder.trunc(shift, I16))
    for r in range(ROUNDS):
        w = load(builder, builder.add(keys, builder.mul(row, ir.Constant(I64, 2 + r))), I32)
        ((w >> 16).narrow(I16) | 1).store(group, LANES * r)
        (w.narrow(I16) & mask).store(builder.add(group, ir.Constant(I64, ADDEND)), LANES * r)
    load(builder, keys, I32).narrow(I16).store(builder.add(group, ir.Constant(I64, COUNTS)))


def _shifts(builder, bits):
    """16 - b, the mask of the b high bits, and the shifts of the even and the odd rounds, in every lane."""
    one = ir.Constant(I64, 1)
    shift = splat(builder, builder.sub(ir.Constant(I64, 16), bits), I16)
    mask = splat(builder, ir.Constant(I16, 0xFFFF), I16) << shift
    long = splat(builder, builder.lshr(builder.add(bits, one), one), I16)
    return shift, mask, long, splat(builder, builder.lshr(bits, one), I16)


def _images(builder, numbers, bits, factors, addends):
    """Where the permutation with these factors and addends takes the numbers."""
    shift, mask, long, short = _shifts(builder, bits)
    y = numbers << shift
    for r in range(ROUNDS):
        y = y * factors[r] + addends[r]
        if r < ROUNDS - 1:
            y = y ^ ((y >> (long if r % 2 == 0 else short)) & mask)
    return y >> shift


@vectorized(None, types.int64, types.int64, types.int64, types.int64, types.int64)
def permute_along(builder, out, keys, first, last, bits):
    """out[0], out[1], ... = the images of first..last-1 under one stream's permutation, in whole vectors."""
    _, mask, _, _ = _shifts(builder, bits)
    words = []
    for r in range(ROUNDS):
        at = builder.inttoptr(builder.add(keys, ir.Constant(I64, 4 * BATCH * (2 + r))), I32.as_pointer())
        words.append(splat(builder, builder.load(at), I32))
    factors, addends = [(w >> 16).narrow(I16) | 1 for w in words], [w.narrow(I16) & mask for w in words]
    vectors = builder.lshr(builder.add(builder.sub(last, first), ir.Constant(I64, LANES - 1)), ir.Constant(I64, 5))
    with cgutils.for_range(builder, vectors) as loop:
        k = builder.mul(loop.index, ir.Constant(I64, LANES))
        numbers = count_up(builder, I16) + builder.add(first, k)
        _images(builder, numbers, bits, factors, addends).store(builder.add(out, builder.add(k, k)))


@vectorized(None, types.int64, types.int64, types.int64, types.int64, types.int64)
def permute(builder, out, group, k, bits, none):
    """out[0:32] = the image of k under each stream's permutation, or `none` where its count is at most k."""
    number = splat(builder, k, I16)
    factors = [load(builder, group, I16, LANES * r) for r in range(ROUNDS)]
    addend = builder.add(group, ir.Constant(I64, ADDEND))
    addends = [load(builder, addend, I16, LANES * r) for r in range(ROUNDS)]
    counts = load(builder, builder.add(group, ir.Constant(I64, COUNTS)), I16)
    _images(builder, number, bits, factors, addends).where(number < counts, none).store(out)


@vectorized(None, types.int64)
def invert_factors(builder, group):
    """The inverses modulo 2^16 of the factors, all odd: a is right to 3 bits, and each Newton step doubles them."""
    inverses = builder.add(group, ir.Constant(I64, INVERSES))
    for r in range(ROUNDS):
        a = load(builder, group, I16, LANES * r)
        x = a
        for _ in range(3):
            x = x * ((a ^ a) + 2 - a * x)
        x.store(inverses, LANES * r)


@vectorized(None, types.int64, types.int64, types.int64, types.int64, types.int64)
def count_hit(builder, totals, group, position, bits, excluded):
    """totals[0:32] += 1 where the number of this position is below the count, and it is not excluded[0:32]."""
    shift, mask, long, short = _shifts(builder, bits)
    place = splat(builder, position, I16)
    addends = builder.add(group, ir.Constant(I64, ADDEND))
    inverses = builder.add(group, ir.Constant(I64, INVERSES))
    y = place << shift
    for r in reversed(range(ROUNDS)):
        if r < ROUNDS - 1:
            s = long if r % 2 == 0 else short
            y = y ^ (((y >> s) ^ (y >> s >> s)) & mask)
        y = (y - load(builder, addends, I16, LANES * r)) * load(builder, inverses, I16, LANES * r)
    counts = load(builder, builder.add(group, ir.Constant(I64, COUNTS)), I16)
    hit = ((y >> shift) < counts) & (load(builder, excluded, I16) != place)
    (load(builder, totals, I16) + hit.widen(I16)).store(totals)


@vectorized(types.int64, types.int64)
def bits_of(builder, block_length):
    return builder.cttz(block_length, ir.Constant(I1, 1))


@njit
def group(room, keys, first, last, block_length):
    """Set prepared streams first..last-1 (at most 32) side by side; gives the largest count."""
    most = np.int64(0)
    for i in range(first, first + LANES):
        if i >= last:
            keys[i] = u32(0)
        most = greater(most, keys[i])
    split_keys(room, address(keys) + 4 * first, 4 * BATCH, 16 - bits_of(block_length))
    return most


@njit
def across(rows, room, k, steps, block_length):
    """Rows k..k+steps-1: the k-th position of each of the 32 streams, `block_length` where it has none."""
    b = bits_of(block_length)
    for j in range(steps):
        permute(rows + 2 * LANES * j, room, k + j, b, block_length)


@njit
def hits(totals, room, places, begin, end, block_length, excluded):
    """totals[0:32] (16 bits) += how many of places[begin:end] each stream of a group has, without the excluded."""
    b = bits_of(block_length)
    for i in range(begin, end):
        count_hit(totals, room, np.int64(places[i]), b, excluded)

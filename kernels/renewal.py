"""The renewal walk: 32 lanes of a chunk, each with a generator of its own, jump ahead by uniform gaps.

The connections of brainevent 0.3 (docs/walk.md is the definition). All lanes of a chunk go side by side, a row of
32 positions at a time; a lane that has passed the chunk's end gives `block_length` + lane, which is no position.
`table` holds the bound of the gaps; they are uniform in [1, bound).
"""

import numpy as np
from numba import types

from .ffi import address
from .frontend import njit
from .lanes import mul32
from .simd import I32, I64, LANES, count_up, load, vectorized

NAME = "renewal"
BATCH = 64  # streams that are prepared together
POSITION = np.uint32
KEYS = 2 * LANES  # words of a prepared stream: its lanes' generators and steps
GAP = 0  # word of `table`
COUNTED = False  # only walking tells how many positions there are
PADDED = True  # and some of those written may be none
ACROSS = INVERTIBLE = COMPLEMENTED = False
GROUP = 0
UNSETTLED = 0xFFFFFFFF  # a step beyond every chunk's

u32 = np.uint32


@njit
def start(seed):
    """What every generator of the matrix begins with, from the two words of the seed, of which the low one counts."""
    return u32(seed[1] ^ u32(0xD1B54A35))


@njit
def expected(table, block_length):
    """About how many positions a chunk has, to plan the work by."""
    return np.int64(2 * block_length) // np.int64(table[GAP]) if table[GAP] > 0 else np.int64(0)


def _xorshift(x):
    x = x ^ (x << 13)
    x = x ^ (x >> 17)
    return x ^ (x << 5)


def _bounded(x, span):
    """A number in [0, span) from 32 random bits: the high half of their product."""
    return (x.widen(I64) * x.builder.zext(x.builder.trunc(span, I32), I64) >> 32).narrow(I32)


@vectorized(None, types.int64, types.int64)
def start_lanes(builder, lanes, key):
    """Seed the generators of a stream's lanes."""
    x = count_up(builder, I32) * 0x27D4EB2D ^ key
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16)
    x.where(x != 0, 0x6D2B79F5).store(lanes)
    ((x ^ x) + UNSETTLED).store(lanes, LANES)


@vectorized(types.int64, types.int64, types.int64)
def settle(builder, lanes, span):
    """One trial for the first step of every lane that has none; 0 when all lanes have one."""
    x, step = load(builder, lanes, I32), load(builder, lanes, I32, LANES)
    settled = step != UNSETTLED
    first = _xorshift(x)
    trial, second = _bounded(first, span), _xorshift(first)
    accepted = _bounded(second, span) < (trial ^ trial) + span - trial
    step = step.where(settled, trial.where(accepted, UNSETTLED))
    x.where(settled, second).store(lanes)
    step.store(lanes, LANES)
    return (step == UNSETTLED).any()


@njit
def prepare(keys, table, mixed, streams, batch, block):
    """Bring the lanes of `streams[:batch]` to their first steps in chunk `block`."""
    span, common = np.int64(table[GAP]) - 1, mixed ^ mul32(u32(block), u32(0xC2B2AE35))
    if span > 0:
        for i in range(batch):
            lanes = address(keys) + 4 * KEYS * i
            start_lanes(lanes, np.int64(common ^ mul32(streams[i], u32(0x85EBCA6B))))
            while settle(lanes, span) != 0:
                continue


@vectorized(types.int64, types.int64, types.int64, types.int64, types.int64)
def next_row(builder, out, lanes, span, block_length):
    """out[0:32] = where each lane is, or a place of its own past the end, and a jump; 0 when all are past it."""
    x, step = load(builder, lanes, I32), load(builder, lanes, I32, LANES)
    lane = count_up(builder, I32)
    steps = (((lane ^ lane) + block_length + (LANES - 1)) - lane) >> 5
    here = step < steps
    ((step << 5) + lane).where(here, lane + block_length).store(out)
    x = _xorshift(x)
    gap = _bounded(x, span) + 1
    (step + gap).where(here & (gap < steps - step), steps).store(lanes, LANES)
    x.store(lanes)
    return here.any()


@njit
def positions(out, keys, table, block_length, stream, i, block):
    """Write the positions of prepared stream i, lanes side by side; `out` has room for 64 more than a chunk has."""
    lanes, span, drawn = address(keys) + 4 * KEYS * i, np.int64(table[GAP]) - 1, 0
    if span > 0:
        while next_row(address(out) + 4 * drawn, lanes, span, block_length) != 0:
            drawn += LANES
    return drawn

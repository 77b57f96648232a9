"""The distribution of a block's count, to the last bit: thresholds of Binomial(2^bits, prob) on 32 bits."""

import functools
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext

import numpy as np

LO, SIZE, GUIDE, THRESHOLDS, TABLE = 0, 1, 2, 258, 1088  # layout and length of a table


@functools.lru_cache(maxsize=4096)
def thresholds(bits: int, prob: float) -> tuple[int, tuple[int, ...]]:
    """(lo, T): t(k) = round_half_even(2^32 P[X <= k]) for X ~ Binomial(2^bits, prob), from the first t(k) > 0.

    A block whose 32 random bits are u has lo + #{t in T : t <= u} nonzeros. Exact decimal arithmetic with
    60 digits, so that the table depends on no libm and no version of a statistics library.
    """
    size, full = 1 << bits, 1 << 32
    if prob == 0.0:
        return 0, ()
    if prob == 1.0:
        return size, ()
    with localcontext(Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=-(10**15), Emax=10**15)):
        p = Decimal(prob)
        q = 1 - p
        odds = p / q
        pmf = q**size
        cumulative, lo, table = Decimal(0), None, []
        for k in range(size + 1):
            cumulative += pmf
            t = int((cumulative * full).to_integral_value(ROUND_HALF_EVEN))
            if t >= full:
                return (k if lo is None else lo), tuple(table)
            if t > 0:
                lo = k if lo is None else lo
                table.append(t)
            pmf = pmf * (size - k) / (k + 1) * odds
    raise ArithmeticError(f"the count distribution of {size} entries at prob={prob} does not sum to 1")


@functools.lru_cache(maxsize=4096)
def bernoulli_table(bits: int, prob: float) -> np.ndarray:
    """The table that every kernel reads: lo, size, a guide of 256 entries by u's high byte, then T."""
    lo, values = thresholds(bits, prob)
    table = np.full(TABLE, 0xFFFFFFFF, np.uint32)
    table[LO], table[SIZE] = lo, len(values)
    table[THRESHOLDS : THRESHOLDS + len(values)] = values
    starts = np.arange(256, dtype=np.uint64) << np.uint64(24)
    table[GUIDE:THRESHOLDS] = np.searchsorted(np.array(values, np.uint64), starts, side="right")
    table.setflags(write=False)
    return table

"""The walks in plain NumPy and whole numbers, written from their definitions and from nothing else.

Streams come in arrays, blocks one at a time. `rounds` and `key` are there to be spoiled: a statistical bound is
worth something only if a worse walk breaks it.
"""

import functools
from fractions import Fraction

import numpy as np

C = (0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F, 0x165667B1, 0xD1B54A33, 0x7FEB352D)


def block_bits(length):
    """The largest of 9..14 at which whole blocks waste at most a sixth of the positions, or 9."""
    bits = 9
    for candidate in range(9, 15):
        size = 2**candidate
        blocks = (length + size - 1) // size
        if 6 * blocks * size <= 7 * length:
            bits = candidate
    return bits


@functools.cache
def thresholds(bits, prob):
    """(lo, T) of Binomial(2^bits, prob), by exact ratios of neighbouring terms outwards from the mode.

    Terms are whole numbers relative to 2^320 at the mode, so that no power of `prob` is ever formed.
    """
    size, p = 2**bits, Fraction(prob)
    if p == 0:
        return 0, ()
    if p == 1:
        return size, ()
    yes, no = p.numerator, p.denominator - p.numerator
    mode = min(size, (size + 1) * yes // p.denominator)
    terms = {mode: 1 << 320}
    k = mode
    while k < size and terms[k]:
        terms[k + 1] = terms[k] * (size - k) * yes // ((k + 1) * no)
        k += 1
    k = mode
    while k > 0 and terms[k]:
        terms[k - 1] = terms[k] * k * no // ((size - k + 1) * yes)
        k -= 1
    total, below, lo, values = sum(terms.values()), 0, None, []
    for k in sorted(terms):
        below += terms[k]
        t = round(Fraction(below << 32, total))  # half to even
        if t >= 1 << 32:
            return k if lo is None else lo, tuple(values)
        if t > 0:
            lo = k if lo is None else lo
            values.append(t)
    raise AssertionError("the terms do not sum to 1")


def mix64(z):
    z = np.asarray(z, np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def seed_that_draws(u, stream=0, block=0):
    """A seed at which this block's u is the given one: every step of the key can be undone."""

    def unmix64(z):
        z ^= (z >> 31) ^ (z >> 62)
        z = z * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
        z ^= (z >> 27) ^ (z >> 54)
        z = z * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
        return z ^ (z >> 30) ^ (z >> 60)

    s = unmix64(u << 32 | 0x12345678)
    return unmix64((s - 0x9E3779B97F4A7C15 * (stream << 32 | block)) % 2**64)


def start(seed, streams, block):
    """s of (seed, stream, block), for an array of streams."""
    number = (np.asarray(streams, np.uint64) << np.uint64(32)) | np.uint64(block)
    with np.errstate(over="ignore"):
        return mix64(np.array(seed % 2**64, np.uint64)) + np.uint64(0x9E3779B97F4A7C15) * number


def keys(seed, streams, block, key=start):
    """(u, w): u of shape (streams,), the words w of shape (6, streams)."""
    s = key(seed, np.atleast_1d(streams), block)
    h1, h2 = mix64(s), mix64(s ^ np.uint64(0x6A09E667F3BCC909))
    low = np.uint64(0xFFFFFFFF)
    k = [h1 & low, h2 >> np.uint64(32), h2 & low]
    w = [(k[r % 3] * np.uint64(C[r]) + k[(r + 1) % 3]) & low for r in range(6)]
    return h1 >> np.uint64(32), np.stack(w)


def count(u, bits, prob):
    """K of each u."""
    lo, values = thresholds(bits, prob)
    return lo + (np.array(values, np.uint64)[None, :] <= np.asarray(u)[:, None]).sum(axis=1)


def permute(k, bits, words, rounds=6):
    """Images of k, of shape (streams, len(k)), under the permutations of [0, 2^bits) that `words` key."""
    long, short = (bits + 1) // 2, bits // 2
    mask = np.uint16((0xFFFF << (16 - bits)) & 0xFFFF)
    words = words[:, :, None]
    y = np.broadcast_to((np.asarray(k) << (16 - bits)).astype(np.uint16), (words.shape[1], len(k)))
    for r in range(rounds):
        factor = (words[r] >> np.uint64(16)).astype(np.uint16) | np.uint16(1)
        y = y * factor + (words[r].astype(np.uint16) & mask)
        if r < rounds - 1:
            y = y ^ ((y >> np.uint16(short if r % 2 else long)) & mask)
    return y >> np.uint16(16 - bits)


def invert(positions, bits, words):
    """The k that `permute` takes to `positions`: rounds undone from the last, one whole number at a time."""
    inverse = np.empty(np.shape(positions), np.int64)
    mask = (0xFFFF << (16 - bits)) & 0xFFFF
    for index, position in np.ndenumerate(positions):
        y = int(position) << (16 - bits)
        for r in reversed(range(6)):
            w = int(words[r, index[0]])
            if r < 5:
                shift = bits // 2 if r % 2 else (bits + 1) // 2
                y ^= ((y >> shift) ^ (y >> 2 * shift)) & mask
            y = (y - (w & mask)) * pow((w >> 16) | 1, -1, 65536) & 0xFFFF
        inverse[index] = y >> (16 - bits)
    return inverse


def streams_of(streams, length, prob, seed, begin=0, end=None, rounds=6, key=start):
    """Rows of 0/1: positions [begin, end) of the given streams, whose walked axis has `length` positions."""
    end = length if end is None else end
    bits = block_bits(length)
    size = 1 << bits
    streams = np.asarray(streams, np.uint64)
    rows = np.zeros((len(streams), end - begin), bool)
    for block in range(begin // size, -(-end // size)):
        u, words = keys(seed, streams, block, key)
        drawn = count(u, bits, prob)
        most = int(drawn.max(initial=0))
        positions = block * size + permute(np.arange(most), bits, words, rounds).astype(np.int64) - begin
        inside = (np.arange(most) < drawn[:, None]) & (positions >= 0) & (positions < end - begin)
        which, at = np.nonzero(inside)
        rows[which, positions[which, at]] = True
    return rows


def pattern(shape, prob, seed, corder=False, window=None, **spoiled):
    """The 0/1 matrix, or its window ((first row, end), (first column, end))."""
    (r0, r1), (c0, c1) = window or ((0, shape[0]), (0, shape[1]))
    if corder:
        return streams_of(np.arange(r0, r1), shape[1], prob, seed, c0, c1, **spoiled)
    return streams_of(np.arange(c0, c1), shape[0], prob, seed, r0, r1, **spoiled).T


def positions_of(stream, length, prob, seed):
    """The nonzeros of one stream, ascending, without a row of 0/1."""
    bits = block_bits(length)
    found = []
    for block in range(-(-length >> bits)):
        u, words = keys(seed, stream, block)
        images = permute(np.arange(count(u, bits, prob)[0]), bits, words)[0]
        found.append(np.sort(images.astype(np.int64)) + (block << bits))
    found = np.concatenate([np.zeros(0, np.int64), *found])
    return found[found < length]


# -- the renewal walk --------------------------------------------------------------------------------


def renewal_streams(streams, length, prob, seed, begin=0, end=None):
    """Rows of 0/1: positions [begin, end) of the given streams of a renewal walk along `length` positions."""
    streams, end = np.asarray(streams).astype(np.uint32), length if end is None else end
    rows = np.zeros((len(streams), end - begin), bool)
    if prob == 0:
        return rows
    bound = np.uint64(max(2, int(np.ceil(np.float32(2 / prob)))) - 1)
    size = max(1, (length + 3) // 4)
    lane = np.arange(32, dtype=np.uint32)

    def jump(x):
        x = x ^ x << np.uint32(13)
        x = x ^ x >> np.uint32(17)
        x = x ^ x << np.uint32(5)
        return x, (x.astype(np.uint64) * bound) >> np.uint64(32)

    for chunk in range(4):
        with np.errstate(over="ignore"):
            x = np.uint32(seed % 2**32 ^ 0xD1B54A35) ^ streams[:, None] * np.uint32(0x85EBCA6B)
            x = x ^ np.uint32(chunk) * np.uint32(0xC2B2AE35) ^ lane * np.uint32(0x27D4EB2D)
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
                x = (x ^ x >> np.uint32(shift)) * np.uint32(factor)
        x[x == 0] = 0x6D2B79F5
        step, waiting = np.zeros(x.shape, np.uint64), np.ones(x.shape, bool)
        while waiting.any():
            after, first = jump(x)
            after, gate = jump(after)
            x, step = np.where(waiting, after, x), np.where(waiting, first, step)
            waiting &= gate >= bound - first
        while (inside := (place := lane + np.uint64(32) * step) < size).any():
            position = chunk * size + place.astype(np.int64)
            which, at = np.nonzero(inside & (begin <= position) & (position < end))
            rows[which, position[which, at] - begin] = True
            x, gap = jump(x)
            step = np.where(inside, step + gap + np.uint64(1), step)
    return rows

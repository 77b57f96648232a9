"""The Bernoulli walk on the JAX side: block lengths, tables, and positions in plain JAX (docs/walk.md defines it)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from . import _words as words
from ._thresholds import LO, SIZE, TABLE, THRESHOLDS, bernoulli_table

C = tuple(np.uint32(c) for c in (0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F, 0x165667B1, 0xD1B54A33, 0x7FEB352D))


def block_bits(length: int) -> int:
    """log2 of the block length: the largest of 9..14 that wastes at most a sixth of the positions, else 9."""
    fitting = [b for b in range(9, 15) if 6 * (-(-length >> b) << b) <= 7 * length]
    return max(fitting, default=9)


def mix64(z):
    """SplitMix64's finalizer on a pair of words."""
    z = words.multiply(words.xor(z, words.shift_right(z, 30)), words.split(0xBF58476D1CE4E5B9))
    z = words.multiply(words.xor(z, words.shift_right(z, 27)), words.split(0x94D049BB133111EB))
    return words.xor(z, words.shift_right(z, 31))


class Bernoulli:
    """Every entry is nonzero with probability exactly `prob`, independently."""

    name = "bernoulli"
    table_length = TABLE
    seed_bits = 64
    most_positions = 1 << 40
    random_access = True
    width = 128  # entries of a stream drawn at once

    @staticmethod
    def block_length(length: int) -> int:
        """Positions in a block of a walked axis of this length."""
        return 1 << block_bits(length)

    @staticmethod
    def table(prob: float, length: int) -> np.ndarray:
        """What a kernel must know of `prob`: the distribution of a block's count."""
        return bernoulli_table(block_bits(length), prob)

    @staticmethod
    def check_prob(prob: float):
        """Every probability can be drawn."""

    @staticmethod
    def start(table, seed, streams, block, block_length: int):
        """The state of a walk through one block of each stream: words, counts, and the number of the next entry."""
        key = words.multiply((streams, jnp.broadcast_to(block, streams.shape)), words.split(0x9E3779B97F4A7C15))
        s = words.add(mix64((seed[0], seed[1])), key)
        h1, h2 = mix64(s), mix64(words.xor(s, words.split(0x6A09E667F3BCC909)))
        k = (h1[1], *h2)
        smaller = jnp.searchsorted(table[THRESHOLDS:], h1[0], side="right").astype(jnp.uint32)
        count = table[LO] + jnp.minimum(smaller, table[SIZE])
        return tuple(k[r % 3] * C[r] + k[(r + 1) % 3] for r in range(6)), count, jnp.uint32(0)

    @staticmethod
    def more(state, block_length: int):
        """Whether any stream has further entries."""
        _, count, k = state
        return k < count.max(initial=0)

    @classmethod
    def draw(cls, table, state, block_length: int):
        """(state after, positions, valid) of the next `width` entries, the last two of shape (streams, width)."""
        w, count, first = state
        b = block_length.bit_length() - 1
        shift, mask = np.uint32(16 - b), np.uint32((0xFFFF << (16 - b)) & 0xFFFF)
        ks = (first + jnp.arange(cls.width, dtype=jnp.uint32))[None, :]
        y = ks << shift
        for r in range(6):
            word = w[r][:, None]
            y = (y * ((word >> np.uint32(16)) | np.uint32(1)) + (word & mask)) & np.uint32(0xFFFF)
            if r < 5:
                y = y ^ ((y >> np.uint32((b + 1) // 2 if r % 2 == 0 else b // 2)) & mask)
        return (w, count, first + np.uint32(cls.width)), y >> shift, ks < count[:, None]

    @staticmethod
    def locate(low, high, block_length: int):
        """(number of the block, place in it) of a position given by its two words."""
        b = block_length.bit_length() - 1
        number = (low >> np.uint32(b)) | (high << np.uint32(32 - b))
        return number, (low & np.uint32(block_length - 1)).astype(jnp.int32)

    @staticmethod
    def compose(block, place, block_length: int):
        """The two words (high, low) of the position at a place of a block."""
        b = block_length.bit_length() - 1
        return block >> np.uint32(32 - b), (block << np.uint32(b)) | place

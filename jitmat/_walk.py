"""The walks on the JAX side: block lengths, tables, and the Bernoulli walk in plain JAX (docs/walk.md defines it)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from . import _words as words
from ._constants import made_once
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

    @staticmethod
    def block_length(length: int) -> int:
        """Positions in a block of a walked axis of this length."""
        return 1 << block_bits(length)

    @staticmethod
    def table(prob: float, length: int) -> np.ndarray:
        """What a kernel must know of `prob`: the distribution of a block's count."""
        return bernoulli_table(block_bits(length), prob)

    @staticmethod
    def draw(table, seed, streams, block, ks, block_length: int):
        """(positions, valid) of entries number `ks` of one block of each stream, both of shape (streams, ks)."""
        b = block_length.bit_length() - 1
        key = words.multiply((streams, jnp.broadcast_to(block, streams.shape)), words.split(0x9E3779B97F4A7C15))
        s = words.add(mix64((seed[0], seed[1])), key)
        h1, h2 = mix64(s), mix64(words.xor(s, words.split(0x6A09E667F3BCC909)))
        k = (h1[1], *h2)
        smaller = jnp.searchsorted(table[THRESHOLDS:], h1[0], side="right").astype(jnp.uint32)
        count = table[LO] + jnp.minimum(smaller, table[SIZE])
        shift, mask = np.uint32(16 - b), np.uint32((0xFFFF << (16 - b)) & 0xFFFF)
        y = ks[None, :].astype(jnp.uint32) << shift
        for r in range(6):
            w = (k[r % 3] * C[r] + k[(r + 1) % 3])[:, None]
            y = (y * ((w >> np.uint32(16)) | np.uint32(1)) + (w & mask)) & np.uint32(0xFFFF)
            if r < 5:
                y = y ^ ((y >> np.uint32((b + 1) // 2 if r % 2 == 0 else b // 2)) & mask)
        return y >> shift, ks[None, :] < count[:, None]

    @staticmethod
    def most(table, block_length: int):
        """A bound on a block's count."""
        return table[LO] + table[SIZE]

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


WALKS = {walk.name: walk for walk in (Bernoulli,)}


def get_walk(name: str):
    """The walk of that name."""
    if not isinstance(name, str) or name not in WALKS:
        raise ValueError(f"walk must be one of {sorted(WALKS)}, got {name!r}")
    return WALKS[name]


def check_range(prob: float):
    """Refuse what is no probability."""
    if not 0.0 <= prob <= 1.0:
        raise ValueError(f"prob must lie in [0, 1], got {prob}")


@made_once
def device_table(walk: str, prob: float, length: int):
    """The table of a concrete `prob`."""
    return WALKS[walk].table(prob, length)


def traced_table(walk: str, prob, length: int):
    """The table of a traced `prob`, computed on the host when the program runs."""

    def on_host(value):
        value = float(value)
        check_range(value)
        return WALKS[walk].table(value, length)

    shape = jax.ShapeDtypeStruct((WALKS[walk].table_length,), jnp.uint32)
    return jax.pure_callback(on_host, shape, jax.lax.stop_gradient(prob), vmap_method="sequential")

"""The renewal walk on the JAX side: the connections that brainevent 0.3 draws, bit for bit (docs/walk.md defines it).

Each of 32 lanes of a chunk visits every 32nd position and jumps by uniform gaps, drawn by an xorshift generator of
its own (Marsaglia 2003, Journal of Statistical Software 8(14)).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from ._words import multiply_wide

CHUNKS, LANES = 4, 32
GAP, CHUNK = 0, 1  # words of a table


def gap_bound(prob: float) -> int:
    """max(2, ceil(float32(2 / prob))): gaps are uniform in [1, bound); 0 for an empty matrix."""
    return 0 if prob == 0 else max(2, math.ceil(np.float32(2 / prob)))


def mix32(x):
    """A finalizer of 32 bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def xorshift(x):
    """The next state of a generator."""
    x = x ^ (x << np.uint32(13))
    x = x ^ (x >> np.uint32(17))
    return x ^ (x << np.uint32(5))


def bounded(x, n):
    """A number in [0, n) from 32 random bits."""
    return multiply_wide(x, n)[0]


def _steps(block_length: int):
    """How many positions of a chunk each lane visits, which are its last step and one."""
    lane = np.arange(LANES, dtype=np.int64)[None, :]
    return ((block_length + LANES - 1 - lane) // LANES).astype(np.uint32)


class Renewal:
    """Gaps between neighbours are uniform: degrees vary less than independent entries' and the density is a step
    function of `prob`."""

    name = "renewal"
    table_length = 2
    seed_bits = 32
    most_positions = 1 << 32
    random_access = False
    width = LANES

    @staticmethod
    def check_prob(prob: float):
        """Gaps must fit in 32 bits."""
        if 0 < prob <= 2.0**-31 or gap_bound(prob) >= 1 << 32:
            raise ValueError(f"walk='renewal' draws gaps of 32 bits: prob must be 0 or above 2^-31, got {prob}")

    @staticmethod
    def block_length(length: int) -> int:
        """Positions in a chunk of a walked axis of this length."""
        return max(1, -(-length // CHUNKS))

    @classmethod
    def table(cls, prob: float, length: int) -> np.ndarray:
        """The bound of the gaps and the length of a chunk."""
        return np.array([gap_bound(prob), cls.block_length(length)], np.uint32)

    @staticmethod
    def start(table, seed, streams, block, block_length: int):
        """The state of a walk through one chunk of each stream: generators, and the step at which each lane is."""
        lane = jnp.arange(LANES, dtype=jnp.uint32)[None, :]
        stream = streams[:, None] * np.uint32(0x85EBCA6B)
        chunk = block.astype(jnp.uint32) * np.uint32(0xC2B2AE35)
        x = mix32(seed[1] ^ np.uint32(0xD1B54A35) ^ stream ^ chunk ^ (lane * np.uint32(0x27D4EB2D)))
        x = jnp.where(x == 0, np.uint32(0x6D2B79F5), x)
        span = table[GAP] - np.uint32(1)

        def draw_first(state):
            x, step, settled = state
            first = xorshift(x)
            trial, second = bounded(first, span), xorshift(first)
            accepted = bounded(second, span) < span - trial
            x, step = jnp.where(settled, x, second), jnp.where(settled, step, trial)
            return x, step, settled | accepted

        steps = _steps(block_length)
        init = x, jnp.broadcast_to(steps, x.shape), jnp.broadcast_to(table[GAP] == 0, x.shape)
        x, step, _ = jax.lax.while_loop(lambda state: ~state[2].all(), draw_first, init)
        return x, jnp.minimum(step, steps)

    @staticmethod
    def more(state, block_length: int):
        """Whether any stream has further entries."""
        return jnp.any(state[1] < _steps(block_length))

    @staticmethod
    def draw(table, state, block_length: int):
        """(state after, positions, valid) of each lane's next entry, the last two of shape (streams, lanes)."""
        x, step = state
        steps = _steps(block_length)
        positions, valid = (step << np.uint32(5)) + jnp.arange(LANES, dtype=jnp.uint32)[None, :], step < steps
        x = xorshift(x)
        gap = bounded(x, table[GAP] - np.uint32(1)) + np.uint32(1)
        return (x, jnp.where(gap < steps - step, step + gap, steps)), positions, valid

    @staticmethod
    def locate(low, high, block_length: int):
        """(number of the chunk, place in it) of a position given by its two words."""
        length = np.uint32(block_length)
        return low // length, (low % length).astype(jnp.int32)

    @staticmethod
    def compose(block, place, block_length: int):
        """The two words (high, low) of the position at a place of a chunk."""
        return np.uint32(0), block * np.uint32(block_length) + place

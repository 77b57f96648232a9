"""Where the nonzeros are: the static description of a matrix's connectivity, and of the block a kernel computes."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from ._constants import made_once
from ._walk import get_walk

MOST_STREAMS = 1 << 32


@dataclasses.dataclass(frozen=True)
class Block:
    """What a kernel must know before it runs: a window of `streams` x `positions`, cut into blocks by its walk."""

    walk: str
    block_length: int
    streams: int
    positions: int
    diagonal: bool  # False: entries whose stream and position agree are left out


@dataclasses.dataclass(frozen=True)
class Pattern:
    """The connectivity of a matrix, up to `prob` and `seed`: a window of a whole matrix that fixes every entry."""

    walk: str
    whole: tuple[int, int]
    corder: bool  # True: a stream per row; False: a stream per column
    origin: tuple[int, int]
    shape: tuple[int, int]
    diagonal: bool

    def __reduce__(self):  # without what is cached on it
        return Pattern, dataclasses.astuple(self)

    @functools.cached_property
    def T(self) -> Pattern:
        """The transposed pattern: the same streams, read along the other axis."""
        (m, n), (i, j), (rows, columns) = self.whole, self.origin, self.shape
        return Pattern(self.walk, (n, m), not self.corder, (j, i), (columns, rows), self.diagonal)

    @functools.cached_property
    def walked_length(self) -> int:
        """Length of the whole axis that streams walk along."""
        return self.whole[1] if self.corder else self.whole[0]

    @functools.cached_property
    def block(self) -> Block:
        streams, positions = self.shape if self.corder else self.shape[::-1]
        length = get_walk(self.walk).block_length(self.walked_length)
        return Block(self.walk, length, streams, positions, self.diagonal)

    @property
    def offset(self) -> jax.Array:
        """First stream and the two words, low and high, of the first position: the kernels' operand."""
        return _offset(*(self.origin if self.corder else self.origin[::-1]))


@made_once
def _offset(stream, position):
    return np.array([stream, position & 0xFFFFFFFF, position >> 32], np.uint32)


def make_pattern(shape, corder, walk, diagonal=True) -> Pattern:
    """The pattern of a whole matrix, its arguments checked."""
    most = get_walk(walk).most_positions
    try:
        rows, columns = (_size(size) for size in shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"shape must be a pair of integers, got {shape!r}") from error
    if not (rows >= 0 and columns >= 0):
        raise ValueError(f"shape must be a pair of integers of at least 0, got {shape!r}")
    corder = check_flag("corder", corder)
    streams, positions = (rows, columns) if corder else (columns, rows)
    if streams > MOST_STREAMS or positions > most:
        raise ValueError(
            f"walk={walk!r} has at most 2^32 streams of 2^{most.bit_length() - 1} positions: shape {shape!r} with"
            f" corder={corder} asks for {streams} of {positions}"
        )
    diagonal = check_flag("diagonal", diagonal)
    if not diagonal and rows != columns:
        raise ValueError(f"diagonal=False needs a square matrix, got shape {shape!r}")
    return Pattern(walk, (rows, columns), corder, (0, 0), (rows, columns), diagonal)


def _size(size):
    if isinstance(size, bool | np.bool_):
        raise TypeError("a size is no boolean")
    return int(size) if size == int(size) else -1


def check_flag(name, value) -> bool:
    """A boolean argument."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)

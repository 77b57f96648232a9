"""What every launch speaks of: operands, and the block of a matrix that a product is computed for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._cuda_launch import Launch
from ._walk import get_walk

_C = {"float32": "float", "float64": "double", "int32": "u32", "uint32": "u32", "int64": "u64", "uint8": "u8"}
STATIC = 6 * 1024  # bytes of shared memory that a kernel takes beside its tile, at most
TABLE, SEED, OFFSET, X = ((0, i) for i in range(4))  # operands; what follows them is results


def integer(value: int):
    return (1, int(value))


class Block(NamedTuple):
    kind: str  # of walk
    size: int  # positions of one of its blocks
    streams: int
    length: int
    diagonal: bool
    columns: int
    operand: np.dtype
    result: np.dtype

    @property
    def types(self):
        return f"X={_C[self.operand.name]}", f"Y={_C[self.result.name]}"

    @property
    def walk(self):
        return walk(self.kind, self.size, self.diagonal)

    @property
    def random_access(self):
        return get_walk(self.kind).random_access

    @property
    def blocks(self):
        """Blocks of the window when it begins with one."""
        return -(-self.length // self.size)

    @property
    def touched(self):
        """Blocks that the window touches at most."""
        return touched(self.length, self.size)

    @property
    def exact(self):
        return self.result.kind != "f"


def walk(kind, size, diagonal):
    """What selects the walk in `walk.cuh`."""
    chosen = f"BITS={size.bit_length() - 1}" if get_walk(kind).random_access else f"{kind.upper()}=1"
    return chosen, f"DIAGONAL={'true' if diagonal else 'false'}"


def touched(length, size):
    """Blocks that a window of this length touches at most."""
    return (length - 2) // size + 2


def sum_parts(block: Block, parts: int, size: int):
    """Result 4 from the scratch behind it."""
    arguments = [(0, 5), (0, 4), integer(parts), integer(size)]
    return Launch("vectors", block.types[1:], "sum_parts", (min(-(-size // 256), 1 << 16),), 256, 0, arguments)


def zero(block: Block, size: int):
    return Launch(
        "vectors", block.types[1:], "zero", (min(-(-size // 256), 1 << 12),), 256, 0, [(0, 4), integer(size)]
    )

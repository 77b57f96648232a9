"""The CUDA backend: which kernels compute a product or a part of the pattern, and with what grid.

All functions are traced by JAX and take the operands of the kernels as they are: `table`, `seed` (high and low
word), `offset` (first stream, low and high word of the first position) and `x` with its columns last.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _cuda_driver
from ._cuda_launch import Launch, call

_C = {"float32": "float", "float64": "double", "int32": "u32", "uint32": "u32", "uint8": "u8"}
TABLE, SEED, OFFSET, X = ((0, i) for i in range(4))  # operands; what follows them is results


def integer(value: int):
    return (1, int(value))


def available() -> tuple[bool, str]:
    """Whether the kernels can run here, and if not, one sentence that says why and what to install."""
    try:
        device = _cuda_driver.device()
        _cuda_driver.target(device.capability, device.alike)
        _cuda_driver.folder()
        from .kernels import ffi  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return False, f"numba cannot be used ({error}); `pip install numba`"
    except (OSError, RuntimeError) as error:
        return False, str(error)
    problem = ffi.layout_problem()
    return problem is None, problem or ""


def product(table, seed, offset, x, *, gather, streams, length, bits, diagonal, deterministic=False):
    """P @ x for an x per position (gather), or P.T @ x for an x per stream (scatter), P being 0/1.

    x is (length or streams, columns) in float32, float64 or int32, or a bool or uint8 mask, whose result is a
    uint32 count. Sums of floats are added in one order, but in scatter without `deterministic`.
    """
    columns, result = x.shape[1], np.dtype(x.dtype)
    if result in (np.dtype(bool), np.dtype(np.uint8)):
        x, result = x.view(jnp.uint8), np.dtype(np.uint32)
    shape = (streams if gather else length, columns)
    if 0 in (streams, length, columns):
        return jnp.zeros(shape, result)
    block = _Block(streams, length, bits, bool(diagonal), columns, np.dtype(x.dtype), result)
    if columns > 1:
        launches, scratch = (_gather_columns if gather else _scatter_columns)(block, deterministic)
    else:
        launches, scratch = (_gather if gather else _scatter)(block, deterministic)
    out, *_ = call(launches, [jax.ShapeDtypeStruct(shape, result), *scratch], table, seed, offset, x)
    return out


def count(table, seed, offset, *, streams, length, bits, diagonal):
    """uint32 number of nonzeros of each stream inside the window."""
    if 0 in (streams, length):
        return jnp.zeros(streams, np.uint32)
    launch = _materialize("count", streams, length, bits, diagonal, 1, [(0, 3)])
    return call([launch], [jax.ShapeDtypeStruct((streams,), np.uint32)], table, seed, offset)[0]


def fill(table, seed, offset, starts, *, capacity, streams, length, bits, diagonal):
    """int32 positions of the nonzeros, ascending within each stream, that of stream s from starts[s] on."""
    if 0 in (streams, length, capacity):
        return jnp.zeros(capacity, np.int32)
    launch = _materialize("fill", streams, length, bits, diagonal, 1, [X, (0, 4)], [integer(capacity)])
    return call([launch], [jax.ShapeDtypeStruct((capacity,), np.int32)], table, seed, offset, starts)[0]


def dense(table, seed, offset, *, streams, length, bits, diagonal):
    """The pattern as uint8, (streams, length)."""
    if 0 in (streams, length):
        return jnp.zeros((streams, length), np.uint8)
    launch = _materialize("dense", streams, length, bits, diagonal, min(_blocks(length, bits), 1024), [(0, 3)])
    return call([launch], [jax.ShapeDtypeStruct((streams, length), np.uint8)], table, seed, offset)[0]


def _materialize(function, streams, length, bits, diagonal, split, buffers, more=()):
    grid = (min(-(-streams // 8), 1 << 20), split)
    arguments = [TABLE, SEED, OFFSET, *buffers, integer(streams), integer(length), *more]
    return Launch("materialize", (*_walk(bits, diagonal), "THREADS=256"), function, grid, 256, 0, arguments)


class _Block(NamedTuple):
    streams: int
    length: int
    bits: int
    diagonal: bool
    columns: int
    operand: np.dtype
    result: np.dtype

    @property
    def types(self):
        return f"X={_C[self.operand.name]}", f"Y={_C[self.result.name]}"

    @property
    def walk(self):
        return _walk(self.bits, self.diagonal)

    @property
    def size(self):
        return 1 << self.bits

    @property
    def blocks(self):
        """Blocks of the window when it begins with one."""
        return -(-self.length // self.size)

    @property
    def exact(self):
        return self.result.kind != "f"


def _walk(bits, diagonal):
    return f"BITS={bits}", f"DIAGONAL={'true' if diagonal else 'false'}"


def _blocks(length, bits):
    """Blocks that a window of this length touches at most."""
    return ((length - 2) >> bits) + 2


class Gather(NamedTuple):
    threads: int
    resident: int  # thread blocks on a multiprocessor at a time
    lanes: int  # that share a stream
    parts: int  # of the walked axis
    rows: int  # streams of a thread block


ROWS, EVENTS, STATIC = 4096, 1024, 6 * 1024  # STATIC: bound on what a kernel takes beside its tile


@functools.lru_cache(maxsize=None)
def plan_gather(block: _Block, device: _cuda_driver.Device) -> Gather:
    threads, resident = 512, 2
    room = resident * device.multiprocessors
    lanes = 32
    while lanes > 1 and block.streams * block.blocks * lanes > 2 * room * threads:
        lanes //= 2
    parts = max(1, min(block.blocks, room, room * threads // (block.streams * lanes)))
    ranges = max(1, room // parts, -(-block.streams // ROWS))
    return Gather(threads, resident, lanes, parts, -(-block.streams // ranges))


def _gather(block: _Block, deterministic):
    device = _cuda_driver.device()
    plan = plan_gather(block, device)
    events = EVENTS if block.operand.itemsize == 1 else 0
    shared = plan.rows * (block.result.itemsize + 4) + 2 * events
    tile = shared + block.size * block.operand.itemsize + STATIC <= device.shared
    shared += block.size * block.operand.itemsize if tile else 0
    defines = (
        *block.walk, *block.types, f"LANES={plan.lanes}", f"THREADS={plan.threads}", f"MINBLOCKS={plan.resident}",
        f"TILE={'true' if tile else 'false'}", f"EVENTS={events}",
    )  # fmt: skip
    grid = (-(-block.streams // plan.rows), plan.parts)
    sizes = [integer(block.streams), integer(block.length), integer(plan.rows)]
    if plan.parts == 1:
        return [Launch("gather", defines, "gather", grid, plan.threads, shared, [TABLE, SEED, OFFSET, X, (0, 4), *sizes])], []
    scratch = jax.ShapeDtypeStruct((plan.parts, block.streams), block.result)
    launch = Launch("gather", defines, "gather", grid, plan.threads, shared, [TABLE, SEED, OFFSET, X, (0, 5), *sizes])
    return [launch, _sum_parts(block, plan.parts, block.streams)], [scratch]


def _sum_parts(block: _Block, parts: int, size: int):
    """Result 4 from the scratch behind it."""
    arguments = [(0, 5), (0, 4), integer(parts), integer(size)]
    return Launch("vectors", block.types[1:], "sum_parts", (min(-(-size // 256), 1 << 16),), 256, 0, arguments)


def _zero(block: _Block, size: int):
    return Launch("vectors", block.types[1:], "zero", (min(-(-size // 256), 1 << 12),), 256, 0, [(0, 4), integer(size)])


class Scatter(NamedTuple):
    threads: int
    resident: int
    lanes: int
    slots: int  # of the streams


@functools.lru_cache(maxsize=None)
def plan_scatter(block: _Block, device: _cuda_driver.Device) -> Scatter:
    threads, resident = 512, 2
    room = resident * device.multiprocessors
    slots = max(1, min(room // block.blocks, block.streams))
    lanes = 32
    while lanes > 1 and block.streams * lanes > 2 * slots * threads:
        lanes //= 2
    return Scatter(threads, resident, lanes, slots)


def _scatter(block: _Block, deterministic):
    if deterministic and not block.exact:
        return _ordered(block)
    device = _cuda_driver.device()
    plan = plan_scatter(block, device)
    counts = block.operand.itemsize == 1
    shared = block.size * block.result.itemsize
    tile = shared + 4 * STATIC <= device.shared
    defines = (
        *block.walk, *block.types, f"LANES={plan.lanes}", f"THREADS={plan.threads}", f"MINBLOCKS={plan.resident}",
        f"TILE={'true' if tile else 'false'}", f"COUNTS={int(counts)}",
    )  # fmt: skip
    grid = (_blocks(block.length, block.bits), plan.slots)
    sizes = [integer(block.streams), integer(block.length)]
    shared = shared if tile else 0
    if not counts:
        arguments = [TABLE, SEED, OFFSET, X, (0, 4), *sizes]
        launch = Launch("scatter", defines, "scatter", grid, plan.threads, shared, arguments)
        return [launch] if plan.slots == 1 and tile else [_zero(block, block.length), launch], []
    span = 4096 * max(1, -(-block.streams // (4096 * 1024)))
    segments = -(-block.streams // span)
    scratch = [jax.ShapeDtypeStruct((block.streams,), np.uint32), jax.ShapeDtypeStruct((segments,), np.uint32)]
    compact = [X, (0, 5), (0, 6), (0, 4), *sizes, integer(span)]
    arguments = [TABLE, SEED, OFFSET, (0, 5), (0, 6), (0, 4), *sizes, integer(span)]
    wide = max(segments, min(-(-block.length // 1024), device.multiprocessors))
    return [
        Launch("scatter", defines, "compact", (wide,), 256, 0, compact),
        Launch("scatter", defines, "scatter", grid, plan.threads, shared, arguments),
    ], scratch


def _ordered(block: _Block):
    """The scatter whose order of addition is fixed: slots in parallel, each in its own copy of the result."""
    device = _cuda_driver.device()
    threads, shared = 512, block.size * block.result.itemsize
    tile = shared + 4 * STATIC <= device.shared
    blocks = _blocks(block.length, block.bits)
    slots = max(1, min(2 * device.multiprocessors // (blocks * block.columns), -(-block.streams // 16)))
    defines = (*block.walk, *block.types, f"THREADS={threads}", f"TILE={'true' if tile else 'false'}")
    out = (0, 4) if slots == 1 else (0, 5)
    arguments = [TABLE, SEED, OFFSET, X, out, *map(integer, (block.streams, block.length, block.columns))]
    launch = Launch(
        "ordered", defines, "ordered", (blocks, slots, min(block.columns, 1 << 15)), threads, shared if tile else 0, arguments
    )
    if slots == 1:
        return [launch], []
    size = block.length * block.columns
    return [launch, _sum_parts(block, slots, size)], [jax.ShapeDtypeStruct((slots, size), block.result)]


def _columns(block: _Block):
    across = 1 << min(5, (block.columns - 1).bit_length())
    wide = 1 if block.columns <= 32 else 2 if block.columns <= 64 else 4
    defines = (*block.walk, *block.types, "THREADS=256", f"ACROSS={across}", f"WIDE={wide}")
    return defines, -(-block.columns // (32 * wide))


def _gather_columns(block: _Block, deterministic):
    defines, across = _columns(block)
    grid = (min(-(-block.streams // 8), 1 << 20), across)
    sizes = map(integer, (block.streams, block.length, block.columns, 0))
    return [Launch("columns", defines, "gather_columns", grid, 256, 0, [TABLE, SEED, OFFSET, X, (0, 4), *sizes])], []


def _scatter_columns(block: _Block, deterministic):
    if deterministic and not block.exact:
        return _ordered(block)
    defines, across = _columns(block)
    ranges = min(-(-block.streams // 8), 1 << 20)
    split = max(1, min(block.blocks, 16 * _cuda_driver.device().multiprocessors // (ranges * across)))
    sizes = map(integer, (block.streams, block.length, block.columns, 0))
    launch = Launch(
        "columns", defines, "scatter_columns", (ranges, across, split), 256, 0, [TABLE, SEED, OFFSET, X, (0, 4), *sizes]
    )
    return [_zero(block, block.length * block.columns), launch], []

"""Products with one column: which kernels, and how the streams and blocks are shared out."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np

from . import _cuda_driver
from ._cuda_block import OFFSET, SEED, STATIC, TABLE, Block, X, integer, sum_parts, zero
from ._cuda_launch import Launch


class Gather(NamedTuple):
    threads: int
    resident: int  # thread blocks on a multiprocessor at a time
    lanes: int  # that share a stream
    parts: int  # of the walked axis
    rows: int  # streams of a thread block


ROWS, EVENTS = 4096, 1024  # of a thread block at most; of a tile, to be tested one by one


@functools.cache
def plan_gather(block: Block, device: _cuda_driver.Device) -> Gather:
    threads, resident = (512, 2) if block.random_access else (1024, 1)
    room = resident * device.multiprocessors
    cuts = []
    for parts in range(1, min(block.blocks, room) + 1):
        # a row at least to each warp when lanes are many
        ranges = max(1, min(room // parts, -(-block.streams * 32 // threads)), -(-block.streams // ROWS))
        if parts > 1 and ranges * parts > room:
            break
        rows = -(-block.streams // ranges)
        cuts.append((-(-block.blocks // parts) * (rows + 150), parts, rows))  # 150: a block costs that much by itself
    _, parts, rows = min(cuts)
    lanes = 1
    while lanes < 32 and rows * lanes < 2 * threads:
        lanes *= 2
    return Gather(threads, resident, lanes, parts, rows)


def gather(block: Block, deterministic):
    device = _cuda_driver.device()
    plan = plan_gather(block, device)
    packed = block.operand.itemsize == 1 and not block.random_access
    held = -(-block.size // 128) * 128 * block.operand.itemsize // (8 if packed else 1)
    shared = plan.rows * (block.result.itemsize + 4)
    tile = shared + 2 * EVENTS + held + STATIC <= device.shared
    events = EVENTS if block.operand.itemsize == 1 and block.random_access and tile else 0
    shared += 2 * events + (held if tile else 0)
    lanes = plan.lanes if block.random_access or not tile else max(8, plan.lanes)
    defines = (
        *block.walk, *block.types, f"LANES={lanes}", f"THREADS={plan.threads}", f"MINBLOCKS={plan.resident}",
        f"TILE={'true' if tile else 'false'}", f"EVENTS={events}", f"PACKED={int(packed)}",
    )  # fmt: skip
    grid = (-(-block.streams // plan.rows), plan.parts)
    sizes = [integer(block.streams), integer(block.length), integer(plan.rows)]
    if plan.parts == 1:
        return [
            Launch("gather", defines, "gather", grid, plan.threads, shared, [TABLE, SEED, OFFSET, X, (0, 4), *sizes])
        ], []
    scratch = jax.ShapeDtypeStruct((plan.parts, block.streams), block.result)
    launch = Launch("gather", defines, "gather", grid, plan.threads, shared, [TABLE, SEED, OFFSET, X, (0, 5), *sizes])
    return [launch, sum_parts(block, plan.parts, block.streams)], [scratch]


class Scatter(NamedTuple):
    threads: int
    resident: int
    lanes: int
    slots: int  # of the streams


@functools.cache
def plan_scatter(block: Block, device: _cuda_driver.Device) -> Scatter:
    threads, resident = 1024, 1 if block.random_access else 2
    room = resident * device.multiprocessors
    slots = max(1, min(room // block.blocks, block.streams))
    lanes = 1
    while lanes < 32 and block.streams * lanes < 2 * slots * threads:
        lanes *= 2
    return Scatter(threads, resident, lanes, slots)


SMALL_STREAMS, SMALL = 4096, 1 << 22  # of a stream axis, and of a pattern, that is tested entry by entry


def _small(block: Block):
    positions, threads = 8, 512
    counts = block.operand.itemsize == 1
    defines = (*block.walk, *block.types, f"COUNTS={int(counts)}", f"POSITIONS={positions}", f"THREADS={threads}")
    arguments = [TABLE, SEED, OFFSET, X, (0, 4), integer(block.streams), integer(block.length)]
    return [Launch("small", defines, "small", (-(-block.length // positions),), threads, 0, arguments)], []


@functools.cache
def plan_fixed(block: Block, device: _cuda_driver.Device) -> Scatter:
    threads, resident = (1024, 1) if 8 * block.size + STATIC > device.shared_all // 2 else (512, 2)
    room = resident * device.multiprocessors
    return Scatter(threads, resident, 0, max(1, min(room // block.blocks, -(-block.streams // 8))))


def _fixed(block: Block, shared):
    plan = plan_fixed(block, _cuda_driver.device())
    defines = (*block.walk, f"THREADS={plan.threads}", f"MINBLOCKS={plan.resident}")
    grid = (block.touched, plan.slots)
    arguments = [TABLE, SEED, OFFSET, X, (0, 4 + (plan.slots > 1)), integer(block.streams), integer(block.length)]
    launch = Launch("fixed", defines, "fixed", grid, plan.threads, shared, arguments)
    if plan.slots == 1:
        return [launch], []
    scratch = jax.ShapeDtypeStruct((plan.slots, block.length), block.result)
    return [launch, sum_parts(block, plan.slots, block.length)], [scratch]


def scatter(block: Block, deterministic):
    device = _cuda_driver.device()
    few = 32 <= block.streams <= SMALL_STREAMS  # a warp takes 32 streams
    if block.random_access and few and block.streams * block.length <= SMALL:
        return _small(block)
    if block.operand.name == "float32" and 8 * block.size + 3 * STATIC <= device.shared:
        return _fixed(block, 8 * block.size)
    if deterministic and not block.exact:
        return ordered(block)
    plan = plan_scatter(block, device)
    counts = block.operand.itemsize == 1
    shared = -(-block.size // 4) * 4 * block.result.itemsize
    tile = shared + 4 * STATIC <= device.shared
    defines = (
        *block.walk, *block.types, f"LANES={plan.lanes}", f"THREADS={plan.threads}", f"MINBLOCKS={plan.resident}",
        f"TILE={'true' if tile else 'false'}", f"COUNTS={int(counts)}",
    )  # fmt: skip
    grid = (block.touched, plan.slots)
    sizes = [integer(block.streams), integer(block.length)]
    shared = shared if tile else 0
    if not counts:
        arguments = [TABLE, SEED, OFFSET, X, (0, 4), *sizes]
        launch = Launch("scatter", defines, "scatter", grid, plan.threads, shared, arguments)
        return [launch] if plan.slots == 1 and tile else [zero(block, block.length), launch], []
    span = 4096 * max(1, -(-block.streams // (4096 * 128)))
    segments = -(-block.streams // span)
    scratch = [jax.ShapeDtypeStruct((block.streams,), np.uint32), jax.ShapeDtypeStruct((segments,), np.uint32)]
    compact = [X, (0, 5), (0, 6), (0, 4), *sizes, integer(span)]
    arguments = [TABLE, SEED, OFFSET, (0, 5), (0, 6), (0, 4), *map(integer, (block.length, span, segments))]
    wide = max(segments, min(-(-block.length // 2048), 4 * device.multiprocessors))
    return [
        Launch("scatter", defines, "compact", (wide,), 256, 0, compact),
        Launch("scatter", defines, "scatter", grid, plan.threads, shared, arguments),
    ], scratch


NO_FLAGS = (integer(0), integer(0), integer(0))  # nobody else stands ready


def ordered(block: Block):
    """The scatter whose order of addition is fixed: slots in parallel, each in its own copy of the result."""
    blocks = block.touched
    slots = max(1, min(2 * _cuda_driver.device().multiprocessors // (blocks * block.columns), -(-block.streams // 16)))
    out = (0, 4) if slots == 1 else (0, 5)
    launch = ordered_launch(block, slots, out, NO_FLAGS)
    if slots == 1:
        return [launch], []
    size = block.length * block.columns
    return [launch, sum_parts(block, slots, size)], [jax.ShapeDtypeStruct((slots, size), block.result)]


def ordered_launch(block: Block, slots, out, flags):
    threads, shared = 512, block.size * block.result.itemsize
    tile = shared + 4 * STATIC <= _cuda_driver.device().shared
    defines = (*block.walk, *block.types, f"THREADS={threads}", f"TILE={'true' if tile else 'false'}")
    arguments = [TABLE, SEED, OFFSET, X, out, *map(integer, (block.streams, block.length, block.columns)), *flags]
    grid = (block.touched, slots, min(block.columns, 1 << 15))
    return Launch("ordered", defines, "ordered", grid, threads, shared if tile else 0, arguments)

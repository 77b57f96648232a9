"""Products with several columns: on tensor cores where that is the faster way, else a position at a time."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np

from . import _cuda_driver
from ._cuda_block import OFFSET, SEED, STATIC, TABLE, Block, X, integer, sum_parts, zero
from ._cuda_launch import Launch
from ._cuda_vectors import NO_FLAGS, ordered, ordered_launch


def gather(block: Block, deterministic):
    tensor = plan_tensor(block, True, _cuda_driver.device())
    if tensor is None:
        return [_columns(block, "gather_columns", (0, 4), NO_FLAGS)], []
    launches, scratch, flags, parts = _tensor(block, tensor, True, False)
    launches.append(_columns(block, "gather_columns", (0, 4), flags))
    if parts > 1:  # the fallback writes the result itself, so the sum of the parts comes before it
        launches.insert(2, sum_parts(block, parts, block.streams * block.columns))
    return launches, scratch


def scatter(block: Block, deterministic):
    in_order = deterministic and not block.exact
    tensor = plan_tensor(block, False, _cuda_driver.device())
    if tensor is None:
        if in_order:
            return ordered(block)
        return [zero(block, block.length * block.columns), _columns(block, "scatter_columns", (0, 4), NO_FLAGS)], []
    launches, scratch, flags, slots = _tensor(block, tensor, False, in_order)
    if not in_order:
        return [*launches, _columns(block, "scatter_columns", (0, 4), flags)], scratch
    launches.append(ordered_launch(block, slots, (0, 5) if slots > 1 else (0, 4), flags))
    if slots > 1:
        launches.append(sum_parts(block, slots, block.length * block.columns))
    return launches, scratch


def _columns(block: Block, function, out, flags):
    """The kernel for several columns that needs no tensor cores."""
    across = 1 << min(5, (block.columns - 1).bit_length())
    wide = 1 if block.columns <= 32 else 2 if block.columns <= 64 else 4
    defines = (*block.walk, *block.types, "THREADS=256", f"ACROSS={across}", f"WIDE={wide}")
    ranges, groups = min(-(-block.streams // 8), 1 << 20), -(-block.columns // (32 * wide))
    split = 1
    if function == "scatter_columns":
        split = max(1, min(block.blocks, 16 * _cuda_driver.device().multiprocessors // (ranges * groups)))
    sizes = map(integer, (block.streams, block.length, block.columns))
    arguments = [TABLE, SEED, OFFSET, X, out, *sizes, *flags]
    return Launch("columns", defines, function, (ranges, groups, split), 256, 0, arguments)


class Tensor(NamedTuple):
    """A product on tensor cores: tile of the pattern, warps, and how the work is cut."""

    streams: int  # of a tile of the pattern
    tiles: int  # of 8 columns, to a thread block
    rows: int  # warps along the result's rows
    across: int  # warps along its columns
    along: int  # warps along the contraction
    draw: int  # lanes to a stream
    cut: int  # parts of the blocks (gather) or slots of the streams (scatter)
    shared: int
    width: int = 0  # positions of a tile of a scatter


# Density from which the dense product on tensor cores is the faster one where there is work enough to fill the
# GPU, and the size of a pattern that is half as much; for gather and scatter.
LEAST = {"float32": (0.026, 0.025), "uint8": (0.010, 0.017)}
FULL = (2e6, 8e6)


def _least(block: Block, gathers: bool) -> int:
    """Nonzeros of a typical block from which tensor cores are the faster ones."""
    work = block.streams * block.length * min(64, block.columns) / 64
    density = LEAST[block.operand.name][not gathers] * (1 + FULL[not gathers] / work)
    return max(1, int(min(density, 2) * block.size))


@functools.cache
def plan_tensor(block: Block, gathers: bool, device: _cuda_driver.Device) -> Tensor | None:
    if not block.random_access or block.columns < 16 or device.capability < 80 or block.operand.name not in LEAST:
        return None
    tiles = 2 if block.columns <= 16 else 4 if block.columns <= 32 else 8
    groups = -(-block.columns // (8 * tiles))
    plans = (_gather_tensors if gathers else _scatter_tensors)(block, tiles, groups, device.multiprocessors)
    fitting = [plan for plan in plans if plan[1].shared + STATIC <= device.shared]
    return min(fitting, key=lambda plan: (plan[0], -plan[1].cut))[1] if fitting else None


def _gather_tensors(block: Block, tiles, groups, multiprocessors):
    """(estimated clocks, plan) for each way to cut the product."""
    splits = 3 if block.operand.kind == "f" else 1
    for streams in (256, 128, 64, 32) if splits == 1 else (128, 64, 32):
        rows = streams // 32
        across = min(tiles, 16 // rows)
        along = 16 // (rows * across)
        pattern = streams * (block.size // 32 + 4) * 4
        shared = max(pattern, streams * tiles * 32 if along > 1 else 0)
        # drawing, multiplying, and reading fragments of x through L2
        tile = block.size * (streams * (0.2 + tiles * 8 * splits / 1024) + tiles * 16 * splits / 40) + 4000
        for parts in range(1, min(block.blocks, multiprocessors) + 1):
            units = -(-block.streams // streams) * groups * parts
            if parts > 1 and units > 8 * multiprocessors:
                break
            clocks = -(-units // multiprocessors) * -(-block.blocks // parts) * tile + 1000 * parts
            draw = min(32, max(1, 2048 // streams))
            yield clocks, Tensor(streams, tiles, rows, across, along, draw, parts, shared)


def _scatter_tensors(block: Block, tiles, groups, multiprocessors):
    splits = 3 if block.operand.kind == "f" else 1
    for streams, split in itertools.product((512, 256, 128), (1, 2, 4)):
        width = min(block.size, 2**20 // streams) // split
        windows = block.blocks * (block.size // width)
        count = -(-block.streams // streams)
        tile = width * (streams * (0.2 * block.size / width + tiles * 8 * splits / 1024) + tiles * 8) + 4000
        across = min(tiles, 2)
        for slots in range(1, min(count, multiprocessors) + 1):
            units = windows * groups * slots
            if slots > 1 and units > 2 * multiprocessors:
                break
            waves = -(-units // multiprocessors)
            clocks = waves * (-(-count // slots) * tile + 1)
            shared = streams // 32 * (width + 8) * 4
            yield clocks, Tensor(streams, tiles, 16 // across, across, 1, 2048 // streams, slots, shared, width)


def _tensor(block: Block, plan: Tensor, gathers: bool, in_order: bool):
    """Launches, scratch, the arguments by which the fallback knows its turn, and the number of partial results."""
    splits, vectors = (3, 4) if block.operand.kind == "f" else (1, 2)
    groups = -(-block.columns // (8 * plan.tiles))
    tiles, blocks = groups * plan.tiles, block.touched
    slabs = blocks * block.size // 128 if gathers else -(-block.streams // plan.streams) * plan.streams // 128
    flag_count = min(264, -(-slabs * tiles * 32 // 256))
    many = plan.cut > 1 and (gathers or in_order)
    fragments = jax.ShapeDtypeStruct((slabs, tiles, splits, vectors, 128), np.uint32)
    scratch = [fragments, jax.ShapeDtypeStruct((flag_count,), np.uint32)]
    size = (block.streams if gathers else block.length) * block.columns
    if many:
        scratch.insert(0, jax.ShapeDtypeStruct((plan.cut, size), block.result))
    packed, flags, sums = (0, 5 + many), (0, 6 + many), (0, 5) if many else (0, 4)
    turn = (flags, integer(flag_count), integer(_least(block, gathers)))
    defines = (
        *block.walk, f"COUNTS={int(splits == 1)}", f"GATHER={int(gathers)}", f"MS={plan.streams}",
        f"TILES={plan.tiles}", f"MW={plan.rows}", f"NW={plan.across}", f"KW={plan.along}", f"DRAW={plan.draw}",
        f"ORDERED={'true' if in_order else 'false'}", f"WIDTH={plan.width}",
    )  # fmt: skip
    rows = block.length if gathers else block.streams
    zeros = 0 if gathers or in_order else size
    pack = [OFFSET, X, packed, flags, (0, 4), *map(integer, (zeros, rows, block.columns, slabs, tiles, gathers))]
    sizes = map(integer, (block.streams, block.length, block.columns, tiles))
    arguments = [TABLE, SEED, OFFSET, packed, flags, sums, *sizes, *turn[1:]]
    across = -(-block.streams // plan.streams) if gathers else blocks * block.size // plan.width
    function, threads = "gather_tensor" if gathers else "scatter_tensor", 32 * plan.rows * plan.across * plan.along
    launches = [
        Launch("tensor", defines, "pack", (flag_count,), 256, 0, pack),
        Launch("tensor", defines, function, (across, plan.cut, groups), threads, plan.shared, arguments),
    ]
    return launches, scratch, turn, plan.cut if many else 1

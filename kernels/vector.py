"""Products of the 0/1 pattern with a vector, in both orientations, for any walk.

gather:  result[s] = sum of operand[p] over the positions p of stream s
scatter: result[p] = sum of operand[s] over the streams s that have position p

A block's part of the walked vector is copied to a tile, so that no position needs a test: beyond the window the
tile is zero, or is thrown away. Operands of one byte are events and give counts. Sums run in an order that
depends on the operands alone, never on the number of threads.
"""

import numpy as np
from numba import types

from . import ffi
from .ffi import address, load64, view, word
from .frontend import njit
from .lanes import greater, lesser
from .scatter import make_scatter_plan
from .simd import I16, I32, IR_TYPES, LANES, gather, load, vectorized
from .window import ACTIVE, BLOCK, GROUPS, LENGTH, NO_DIAGONAL, PER_CHUNK, STEPS, STREAMS, make_window

FEW = 12  # streams, below which lanes across streams stay too empty
LONG = 32  # positions of a block from which lanes along one stream fill well
DENSE = 0.6  # share of a block's positions from which its zeros are drawn


@vectorized(None, types.int64, types.int64, types.int64)
def without(builder, row, places, none):
    """row[l] = none where it is places[l]"""
    positions, excluded = load(builder, row, I16), load(builder, places, I16)
    positions.where(positions != excluded, none).store(row)


@njit
def clear(a, begin, end):
    """a[begin:end] = 0; flat arrays and plain loops, which LLVM turns into memset and memcpy."""
    for q in range(begin, end):
        a[q] = 0


@njit
def move(target, at, source, begin, size):
    """target[at : at + size] = source[begin : begin + size]"""
    for q in range(size):
        target[at + q] = source[begin + q]


def make_add_gathered(element):
    """An intrinsic: sums[0:32] += tile[row[0:32]]"""

    @vectorized(None, types.int64, types.int64, types.int64)
    def add_gathered(builder, sums, tile, row):
        for half in (0, LANES // 2):
            index = load(builder, row, I16, half, LANES // 2).widen(I32)
            added = gather(builder, tile, element, index)
            (load(builder, sums, element, half, LANES // 2) + added).store(sums, half)

    return add_gathered


@njit
def active_places(places, events, base, low, high, limit):
    """The q in [low, high) with a nonzero events[base + q], to the front of `places`, as long as they are fewer
    than `limit`; how many they are."""
    count, q = 0, low
    first = address(events) + base
    while q < high and count < limit:
        if q + 8 <= high and load64(first + q) == 0:  # eight silent events at a time
            q += 8
        else:
            for t in range(q, lesser(q + 8, high)):
                places[count] = t
                count += events[base + t] != 0
            q += 8
    return count


def make_rows(walk):
    """`draw_rows(rows, group, k, steps, block_length, places)`: rows of positions across, without the diagonal's."""

    @njit
    def draw_rows(rows, group, k, steps, block_length, places):
        walk.across(rows, group, k, steps, block_length)
        if places != 0:
            for j in range(steps):
                without(rows + 2 * LANES * j, places, block_length)

    @njit
    def diagonal_places(job, places, numbers, first, last, block):
        """Where the diagonal meets each of a group's streams in this block; 0 when it meets none, else `places`."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        if not word(word(job, ffi.CONFIG), NO_DIAGONAL):
            return 0
        met = 0
        at = view(places, np.uint16)
        for lane in range(LANES):
            at[lane] = block_length
            if first + lane < last and np.int64(numbers[first + lane]) // block_length == block:
                at[lane] = np.int64(numbers[first + lane]) % block_length
                met = places
        return met

    return draw_rows, diagonal_places


def make_draw_mask(walk):
    """`draw_mask(mask, ...)`: mask[q] = 1 where a prepared stream has position q of its block, else 0."""

    @njit
    def draw_mask(mask, found, keys, table, job, stream, i, block):
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        for q in range(block_length):
            mask[q] = 1
        for k in range(walk.lacking(found, keys, table, block_length, stream, i, block)):
            mask[found[k]] = 0
        if word(word(job, ffi.CONFIG), NO_DIAGONAL) and stream // block_length == block:
            mask[stream % block_length] = 0

    return draw_mask


def make_gather(walk, operand_type, result_type):
    """(plan, body) of the gather product."""
    window = make_window(walk)
    geometry, workspace, views, tile_of, visible = window[:5]
    result_bytes = result_type.bitwidth // 8
    add_gathered = make_add_gathered(IR_TYPES[result_type])
    look_up = operand_type.bitwidth == 8 and walk.INVERTIBLE  # events, which may be few
    across, complemented = walk.ACROSS, walk.COMPLEMENTED  # names that numba prunes branches by
    draw_rows, diagonal_places = make_rows(walk)
    draw_mask = make_draw_mask(walk)

    @njit(fastmath={"reassoc", "nsz"})
    def total(tile, found, drawn):
        acc = result_type(0)
        for k in range(drawn):
            acc += tile[found[k]]
        return acc

    @njit(fastmath={"reassoc", "nsz"})
    def masked_total(tile, mask, block_length):
        acc = result_type(0)
        for q in range(block_length):
            value = tile[q]
            acc += value if mask[q] != 0 else result_type(0)
        return acc

    @njit
    def add_across(job, result, at, tile, keys, numbers, batch, block, group, rows):
        """result[at : at + batch] += the sums over the prepared streams' positions, 32 streams at a time."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        sums_address = address(tile) + result_bytes * (block_length + LANES)
        sums = view(sums_address, result_type)
        places = sums_address + 8 * LANES
        for first in range(0, batch, LANES):
            steps = walk.group(group, keys, first, batch, block_length)
            met = diagonal_places(job, places, numbers, first, batch, block)
            clear(sums, 0, LANES)
            for k in range(0, steps, STEPS):
                some = lesser(STEPS, steps - k)
                draw_rows(rows, group, k, some, block_length, met)
                for j in range(some):
                    add_gathered(sums_address, address(tile), rows + 2 * LANES * j)
            for lane in range(lesser(LANES, batch - first)):
                result[at + first + lane] += sums[lane]

    @njit
    def add_along(job, result, at, tile, keys, numbers, table, batch, block, found):
        """The same, stream by stream."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        for i in range(batch):
            drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, 0, block_length, False)
            result[at + i] += total(tile, found, drawn)

    @njit
    def add_masked(job, result, at, tile, keys, numbers, table, batch, block, found, mask):
        """The same for streams that have most of the block: a sum over all of it, without what they lack."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        for i in range(batch):
            draw_mask(mask, found, keys, table, job, np.int64(numbers[i]), i, block)
            result[at + i] += masked_total(tile, mask, block_length)

    @njit
    def add_hits(job, result, at, tile, keys, numbers, batch, block, group, active, count):
        """The same for events: how many of the active places each prepared stream has."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        totals_address = address(tile) + result_bytes * (block_length + LANES)
        totals = view(totals_address, np.uint16)
        places_address = totals_address + 8 * LANES
        places = view(places_address, np.uint16)
        for first in range(0, batch, LANES):
            walk.group(group, keys, first, batch, block_length)
            walk.invert_factors(group)
            clear(totals, 0, LANES)
            if diagonal_places(job, places_address, numbers, first, batch, block) == 0:
                for lane in range(LANES):
                    places[lane] = block_length
            walk.hits(totals_address, group, active, 0, count, block_length, places_address)
            for lane in range(lesser(LANES, batch - first)):
                result[at + first + lane] += result_type(totals[lane])

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams, length = word(config, BLOCK), word(config, STREAMS), word(config, LENGTH)
        first_stream, position, first_block, blocks = geometry(job)
        room = workspace(job, result_bytes * (block_length + 2 * LANES) + 18 * LANES + 3 * block_length)
        mixed, table, keys, numbers, found, group, rows = views(job, room)
        tile = view(tile_of(job, room), result_type)
        active_address = address(tile) + result_bytes * (block_length + 2 * LANES) + 16 * LANES
        active, mask = view(active_address, np.uint16), view(active_address + 2 * (block_length + LANES), np.uint8)
        operand = view(word(job, ffi.OPERAND), operand_type)
        result = view(word(job, ffi.RESULT), result_type)
        begin = chunk * word(job, PER_CHUNK)
        end = lesser(streams, begin + word(job, PER_CHUNK))
        clear(result, begin, end)
        dense = walk.expected(table, block_length) > DENSE * block_length
        for block in range(first_block, first_block + blocks):
            base = block * block_length - position  # of the block in the operand
            low, high = greater(0, -base), lesser(block_length, length - base)
            few = False
            if look_up:
                limit = greater(walk.expected(table, block_length), 1)
                count = active_places(active, operand, base, low, high, limit)
                if count == 0:
                    continue
                few = count < limit and end - begin >= FEW
            clear(tile, 0, low)
            move(tile, low, operand, base + low, high - low)
            clear(tile, high, block_length + LANES)
            for s0 in range(begin, end, walk.BATCH):
                batch = lesser(walk.BATCH, end - s0)
                for i in range(batch):
                    numbers[i] = first_stream + s0 + i
                walk.prepare(keys, table, mixed, numbers, batch, block)
                if look_up and few:
                    add_hits(job, result, s0, tile, keys, numbers, batch, block, group, active, count)
                    continue
                if complemented and dense:
                    add_masked(job, result, s0, tile, keys, numbers, table, batch, block, found, mask)
                    continue
                if across and end - begin >= FEW:
                    add_across(job, result, s0, tile, keys, numbers, batch, block, group, rows)
                    continue
                add_along(job, result, s0, tile, keys, numbers, table, batch, block, found)
        ffi.free(room)

    return window.plan_streams, body, None


def make_scatter(walk, operand_type, result_type):
    """(plan, body, finish) of the scatter product: only streams with a nonzero operand are walked."""
    window = make_window(walk)
    geometry, workspace, views, tile_of, visible = window[:5]
    result_bytes = result_type.bitwidth // 8
    plan, output, finish = make_scatter_plan(walk, window, operand_type, result_type)
    across, complemented = walk.ACROSS, walk.COMPLEMENTED
    draw_rows, diagonal_places = make_rows(walk)
    draw_mask = make_draw_mask(walk)

    @njit
    def add_across(job, tile, values, keys, numbers, batch, block, group, rows):
        """tile[p] += values[i] over the positions p of every prepared stream i, 32 streams at a time."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        places = address(tile) + result_bytes * (block_length + LANES)
        for first in range(0, batch, LANES):
            steps = walk.group(group, keys, first, batch, block_length)
            met = diagonal_places(job, places, numbers, first, batch, block)
            for k in range(0, steps, STEPS):
                some = lesser(STEPS, steps - k)
                draw_rows(rows, group, k, some, block_length, met)
                row = view(rows, np.uint16)
                for j in range(some):
                    for lane in range(LANES):
                        tile[row[j * LANES + lane]] += values[first + lane]

    @njit
    def add_along(job, tile, values, keys, numbers, table, batch, block, found):
        """The same, stream by stream."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        for i in range(batch):
            drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, 0, block_length, False)
            value = values[i]
            for k in range(drawn):
                tile[found[k]] += value

    @njit
    def add_masked(job, tile, values, keys, numbers, table, batch, block, found, mask):
        """The same for streams that have most of the block."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        for i in range(batch):
            draw_mask(mask, found, keys, table, job, np.int64(numbers[i]), i, block)
            value = values[i]
            for q in range(block_length):
                tile[q] += value if mask[q] != 0 else result_type(0)

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, length = word(config, BLOCK), word(config, LENGTH)
        first_stream, position, first_block, _ = geometry(job)
        room = workspace(job, result_bytes * (block_length + LANES + walk.BATCH) + 16 * LANES + block_length)
        mixed, table, keys, numbers, found, group, rows = views(job, room)
        tile = view(tile_of(job, room), result_type)
        values_address = address(tile) + result_bytes * (block_length + LANES) + 8 * LANES
        values, mask = view(values_address, result_type), view(values_address + result_bytes * walk.BATCH, np.uint8)
        operand = view(word(job, ffi.OPERAND), operand_type)
        active, groups = word(job, ACTIVE), word(job, GROUPS)
        active_streams = view(word(job, ffi.SCRATCH), np.uint32)
        part, block = chunk % groups, first_block + chunk // groups
        base = block * block_length - position
        low, high = greater(0, -base), lesser(block_length, length - base)
        clear(tile, 0, block_length + LANES)
        begin, end = active * part // groups, active * (part + 1) // groups
        expected = walk.expected(table, block_length)
        dense, few_positions = expected > DENSE * block_length, expected < LONG
        for a0 in range(begin, end, walk.BATCH):
            batch = lesser(walk.BATCH, end - a0)
            for i in range(walk.BATCH):
                stream = np.int64(active_streams[lesser(a0 + i, end - 1)])
                numbers[i] = first_stream + stream
                values[i] = operand[stream]
            walk.prepare(keys, table, mixed, numbers, batch, block)
            if complemented and dense:
                add_masked(job, tile, values, keys, numbers, table, batch, block, found, mask)
                continue
            if across and few_positions and end - begin >= FEW:
                add_across(job, tile, values, keys, numbers, batch, block, group, rows)
                continue
            add_along(job, tile, values, keys, numbers, table, batch, block, found)
        move(output(job, part), base + low, tile, low, high - low)
        ffi.free(room)

    return plan, body, finish

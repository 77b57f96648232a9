"""Products of the 0/1 pattern with a matrix, in both orientations: every position is drawn once for all columns.

gather:  result[s, :] = sum of operand[p, :] over the positions p of stream s
scatter: result[p, :] = sum of operand[s, :] over the streams s that have position p

Rows are added 16 columns at a time in vector registers. Operands of one byte are events and give counts.
"""

import numpy as np
from numba import types

from . import ffi
from .ffi import address, view, word
from .frontend import njit
from .lanes import greater, lesser
from .scatter import make_scatter_plan
from .simd import IR_TYPES, load, vectorized
from .vector import clear
from .window import ACTIVE, BLOCK, COLUMNS, GROUPS, LENGTH, PER_CHUNK, STREAMS, make_window

WIDE = 16  # columns of a vector


def make_add_rows(operand_type, result_type):
    """(add four rows, add one row): sums[0:16] += the operand's rows[0:16], by their addresses."""
    source, target = IR_TYPES[operand_type], IR_TYPES[result_type]

    def row(builder, address):
        values = load(builder, address, source, 0, WIDE)
        return values if source == target else values.widen(target)

    @vectorized(None, *[types.int64] * 5)
    def add_four(builder, sums, a, b, c, d):
        four = (row(builder, a) + row(builder, b)) + (row(builder, c) + row(builder, d))
        (load(builder, sums, target, 0, WIDE) + four).store(sums)

    @vectorized(None, types.int64, types.int64)
    def add_one(builder, sums, a):
        (load(builder, sums, target, 0, WIDE) + row(builder, a)).store(sums)

    return add_four, add_one


def make_gather(walk, operand_type, result_type):
    """(plan, body) of the gather product."""
    window = make_window(walk)
    geometry, workspace, views, _, visible = window[:5]
    operand_bytes, result_bytes = operand_type.bitwidth // 8, result_type.bitwidth // 8
    add_four, add_one = make_add_rows(operand_type, result_type)

    @njit
    def add_rows(sums, operand, base, columns, found, drawn):
        """sums[c] += sum over k of operand[base + found[k], c]"""
        row_bytes = operand_bytes * columns
        start = address(operand) + base * row_bytes
        for c in range(0, columns - columns % WIDE, WIDE):
            target, source = address(sums) + result_bytes * c, start + operand_bytes * c
            fours = drawn - drawn % 4
            for k in range(0, fours, 4):
                add_four(
                    target,
                    source + np.int64(found[k]) * row_bytes,
                    source + np.int64(found[k + 1]) * row_bytes,
                    source + np.int64(found[k + 2]) * row_bytes,
                    source + np.int64(found[k + 3]) * row_bytes,
                )
            for k in range(fours, drawn):
                add_one(target, source + np.int64(found[k]) * row_bytes)
        for c in range(columns - columns % WIDE, columns):
            total = result_type(0)
            for k in range(drawn):
                total += result_type(operand[(base + np.int64(found[k])) * columns + c])
            sums[c] += total

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams = word(config, BLOCK), word(config, STREAMS)
        length, columns = word(config, LENGTH), word(config, COLUMNS)
        first_stream, position, first_block, blocks = geometry(job)
        room = workspace(job, 0)
        mixed, table, keys, numbers, found, _, _ = views(job, room)
        operand, result = view(word(job, ffi.OPERAND), operand_type), view(word(job, ffi.RESULT), result_type)
        begin = chunk * word(job, PER_CHUNK)
        end = lesser(streams, begin + word(job, PER_CHUNK))
        clear(result, begin * columns, end * columns)
        for block in range(first_block, first_block + blocks):
            base = block * block_length - position  # of the block in the operand
            low, high = greater(0, -base), lesser(block_length, length - base)
            for s0 in range(begin, end, walk.BATCH):
                batch = lesser(walk.BATCH, end - s0)
                for i in range(batch):
                    numbers[i] = first_stream + s0 + i
                walk.prepare(keys, table, mixed, numbers, batch, block)
                for i in range(batch):
                    drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, low, high, True)
                    sums = view(address(result) + result_bytes * columns * (s0 + i), result_type)
                    add_rows(sums, operand, base, columns, found, drawn)
        ffi.free(room)

    return window.plan_streams, body, None


def make_scatter(walk, operand_type, result_type):
    """(plan, body, finish) of the scatter product: only streams with a nonzero row are walked."""
    window = make_window(walk)
    geometry, workspace, views, _, visible = window[:5]
    operand_bytes, result_bytes = operand_type.bitwidth // 8, result_type.bitwidth // 8
    plan, output, finish = make_scatter_plan(walk, window, operand_type, result_type)
    _, add_one = make_add_rows(operand_type, result_type)

    @njit
    def add_to_rows(out, base, operand, stream, columns, found, drawn):
        """out[base + found[k], c] += operand[stream, c]"""
        row_bytes = result_bytes * columns
        start = address(out) + base * row_bytes
        source = address(operand) + operand_bytes * columns * stream
        for c in range(0, columns - columns % WIDE, WIDE):
            for k in range(drawn):
                add_one(start + result_bytes * c + np.int64(found[k]) * row_bytes, source + operand_bytes * c)
        for c in range(columns - columns % WIDE, columns):
            value = result_type(operand[stream * columns + c])
            for k in range(drawn):
                out[(base + np.int64(found[k])) * columns + c] += value

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, length, columns = word(config, BLOCK), word(config, LENGTH), word(config, COLUMNS)
        first_stream, position, first_block, _ = geometry(job)
        room = workspace(job, 0)
        mixed, table, keys, numbers, found, _, _ = views(job, room)
        operand = view(word(job, ffi.OPERAND), operand_type)
        active, groups = word(job, ACTIVE), word(job, GROUPS)
        active_streams = view(word(job, ffi.SCRATCH), np.uint32)
        part, block = chunk % groups, first_block + chunk // groups
        out = output(job, part)
        base = block * block_length - position
        low, high = greater(0, -base), lesser(block_length, length - base)
        clear(out, (base + low) * columns, (base + high) * columns)
        begin, end = active * part // groups, active * (part + 1) // groups
        for a0 in range(begin, end, walk.BATCH):
            batch = lesser(walk.BATCH, end - a0)
            for i in range(batch):
                numbers[i] = first_stream + active_streams[a0 + i]
            walk.prepare(keys, table, mixed, numbers, batch, block)
            for i in range(batch):
                drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, low, high, True)
                add_to_rows(out, base, operand, np.int64(active_streams[a0 + i]), columns, found, drawn)
        ffi.free(room)

    return plan, body, finish

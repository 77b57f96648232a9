"""The pattern itself: nonzeros per stream, their sorted positions, and the dense 0/1 block."""

import numpy as np

from . import ffi
from .ffi import view, word
from .frontend import njit
from .lanes import greater, lesser, trailing_zeros
from .window import BLOCK, LENGTH, NO_DIAGONAL, PER_CHUNK, STREAMS, make_window


def make_count(walk):
    """result[s] = nonzeros of stream s in the window; whole blocks are counted without drawing them."""
    window = make_window(walk)
    geometry, workspace, views, _, visible = window[:5]
    batch_size, counted = walk.BATCH, walk.COUNTED

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams, length = word(config, BLOCK), word(config, STREAMS), word(config, LENGTH)
        first_stream, position, first_block, blocks = geometry(job)
        room = workspace(job, 0)
        mixed, table, keys, numbers, found, _, _ = views(job, room)
        result = view(word(job, ffi.RESULT), np.uint32)
        begin = chunk * word(job, PER_CHUNK)
        end = lesser(streams, begin + word(job, PER_CHUNK))
        for s in range(begin, end):
            result[s] = 0
        for s0 in range(begin, end, batch_size):
            batch = lesser(batch_size, end - s0)
            for i in range(batch):
                numbers[i] = first_stream + s0 + i
            for block in range(first_block, first_block + blocks):
                base = block * block_length - position
                low, high = greater(0, -base), lesser(block_length, length - base)
                walk.prepare(keys, table, mixed, numbers, batch, block)
                whole = low == 0 and high == block_length
                for i in range(batch):
                    stream = np.int64(numbers[i])
                    skips = word(config, NO_DIAGONAL) and stream // block_length == block
                    if counted and whole and not skips:
                        result[s0 + i] += walk.total(keys, i)
                        continue
                    result[s0 + i] += visible(found, keys, table, job, stream, i, block, low, high, True)
        ffi.free(room)

    return window.plan_streams, body, None


def make_fill(walk):
    """result[starts[s] : starts[s + 1]] = the positions of stream s, ascending; `operand` holds the starts."""
    window = make_window(walk)
    geometry, workspace, views, tile_of, visible = window[:5]

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams, length = word(config, BLOCK), word(config, STREAMS), word(config, LENGTH)
        first_stream, position, first_block, blocks = geometry(job)
        marks_length = (block_length + 63) // 64
        room = workspace(job, 8 * marks_length)
        mixed, table, keys, numbers, found, _, _ = views(job, room)
        starts = view(word(job, ffi.OPERAND), np.int32)
        result = view(word(job, ffi.RESULT), np.int32)
        marks = view(tile_of(job, room), np.uint64)
        for m in range(marks_length):
            marks[m] = 0
        begin = chunk * word(job, PER_CHUNK)
        end = lesser(streams, begin + word(job, PER_CHUNK))
        for s0 in range(begin, end):
            numbers[0] = first_stream + s0
            at = np.int64(starts[s0])
            for block in range(first_block, first_block + blocks):
                base = block * block_length - position
                low, high = greater(0, -base), lesser(block_length, length - base)
                walk.prepare(keys, table, mixed, numbers, 1, block)
                drawn = visible(found, keys, table, job, np.int64(numbers[0]), 0, block, low, high, True)
                for k in range(drawn):
                    marks[found[k] >> 6] |= np.uint64(1) << np.uint64(found[k] & 63)
                for m in range(marks_length):
                    while marks[m] != 0:
                        result[at] = base + m * 64 + np.int64(trailing_zeros(marks[m]))
                        at += 1
                        marks[m] &= marks[m] - np.uint64(1)
        ffi.free(room)

    return window.plan_streams, body, None


def make_dense(walk):
    """result[s, p] = 1 where position p of stream s is a nonzero, else 0."""
    window = make_window(walk)
    geometry, workspace, views, _, visible = window[:5]

    @njit
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams, length = word(config, BLOCK), word(config, STREAMS), word(config, LENGTH)
        first_stream, position, first_block, blocks = geometry(job)
        room = workspace(job, 0)
        mixed, table, keys, numbers, found, _, _ = views(job, room)
        result = view(word(job, ffi.RESULT), np.uint8)
        begin = chunk * word(job, PER_CHUNK)
        end = lesser(streams, begin + word(job, PER_CHUNK))
        for s in range(begin, end):
            for q in range(length):
                result[s * length + q] = 0
        for s0 in range(begin, end):
            numbers[0] = first_stream + s0
            for block in range(first_block, first_block + blocks):
                base = block * block_length - position
                low, high = greater(0, -base), lesser(block_length, length - base)
                walk.prepare(keys, table, mixed, numbers, 1, block)
                drawn = visible(found, keys, table, job, np.int64(numbers[0]), 0, block, low, high, True)
                for k in range(drawn):
                    result[s0 * length + base + np.int64(found[k])] = 1
        ffi.free(room)

    return window.plan_streams, body, None

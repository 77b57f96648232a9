"""What the two scatter products share: the list of active streams, and partial results added in a fixed order."""

import numpy as np

from . import ffi
from .ffi import address, load64, set_word, view, word
from .frontend import njit
from .lanes import greater, lesser
from .window import ACTIVE, BLOCK, COLUMNS, GROUPS, LENGTH, SERIAL, STREAMS

PARTIALS = 1 << 22  # entries of all partial results together


def make_find_active(operand_type):
    """The rows of an operand with a nonzero, written to the front of `rows`; how many they are."""
    one_byte = operand_type.bitwidth == 8

    @njit
    def find_active(operand, streams, columns, rows):
        active = s = 0
        if one_byte and columns == 1:  # eight silent events at a time
            first = address(operand)
            while s + 8 <= streams:
                if load64(first + s) != 0:
                    for t in range(s, s + 8):
                        rows[active] = t
                        active += operand[t] != operand_type(0)
                s += 8
        for t in range(s, streams):
            any_nonzero = False
            for c in range(columns):
                any_nonzero |= operand[t * columns + c] != operand_type(0)
            rows[active] = t  # without a branch: overwritten while the row is silent
            active += any_nonzero
        return active

    return find_active


def make_scatter_plan(walk, window, operand_type, result_type):
    """(plan, output, finish): chunks are a block of positions and a group of the active streams each.

    The number of groups follows from sizes and operands alone, so that float sums do not depend on the threads.
    """
    find_active = make_find_active(operand_type)
    geometry = window.geometry
    result_bytes = result_type.bitwidth // 8

    @njit
    def plan(job, threads):
        config = word(job, ffi.CONFIG)
        streams, columns, length = word(config, STREAMS), word(config, COLUMNS), word(config, LENGTH)
        operand = view(word(job, ffi.OPERAND), operand_type)
        set_word(job, ffi.SCRATCH, ffi.malloc(8 + 4 * streams))
        active = find_active(operand, streams, columns, view(word(job, ffi.SCRATCH), np.uint32))
        _, _, _, blocks = geometry(job)
        table = view(word(job, ffi.TABLE), np.uint32)
        work = active * blocks * (walk.expected(table, word(config, BLOCK)) * columns + 16)
        groups = 1
        if blocks < 16 and work > SERIAL:
            room = PARTIALS // greater(length * columns, 1)
            groups = greater(1, lesser(lesser(active, 16 // greater(blocks, 1)), lesser(work // SERIAL, room)))
        set_word(job, ACTIVE, active)
        set_word(job, GROUPS, groups)
        set_word(job, ffi.CHUNKS, blocks * groups)
        if groups > 1:
            set_word(job, ffi.SCRATCH2, ffi.malloc(result_bytes * groups * length * columns))
            set_word(job, ffi.CHUNKS2, greater(1, lesser(threads, length * columns // 2048)))

    @njit
    def output(job, part):
        """Where a group writes, flat: its partial result, or the result itself when it is the only one."""
        size = word(word(job, ffi.CONFIG), LENGTH) * word(word(job, ffi.CONFIG), COLUMNS)
        if word(job, GROUPS) > 1:
            return view(word(job, ffi.SCRATCH2) + result_bytes * size * part, result_type)
        return view(word(job, ffi.RESULT), result_type)

    @njit
    def finish(job, chunk):
        """Add the groups' partial results, in their order."""
        config = word(job, ffi.CONFIG)
        size = word(config, LENGTH) * word(config, COLUMNS)
        groups, chunks = word(job, GROUPS), word(job, ffi.CHUNKS2)
        parts, result = view(word(job, ffi.SCRATCH2), result_type), view(word(job, ffi.RESULT), result_type)
        begin, end = size * chunk // chunks, size * (chunk + 1) // chunks
        for q in range(begin, end):
            result[q] = parts[q]
        for group in range(1, groups):
            for q in range(begin, end):
                result[q] += parts[group * size + q]

    return plan, output, finish

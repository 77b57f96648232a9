"""Products with the 0/1 pattern, in both orientations, for any walk and any number of columns.

gather:  result[s, :] += operand[p, :]   for every position p of stream s
scatter: result[p, :] += operand[s, :]

Every kernel works on a block of a matrix: `offset` holds the first stream and (two words) the first
position, `config` holds the walk's block length, the numbers of streams, positions and columns, and
whether entries whose stream and position agree are left out. Operands of one byte are events and
give counts. Sums run in an order that depends on the sizes alone, never on the number of threads.
"""

import numpy as np
from numba import carray, njit

from . import ffi
from .ffi import load64, pointer, set_word, word

BLOCK, STREAMS, LENGTH, COLUMNS, NO_DIAGONAL = range(5)  # words of `config`
ACTIVE, GROUPS, PER_CHUNK = ffi.FREE, ffi.FREE + 1, ffi.FREE + 2  # words of a job
SERIAL = 30_000  # nonzeros below which threads cost more than they bring
PARTIALS = 1 << 22  # entries of all partial results of a scatter together
VECTOR = 64  # positions may be written up to a vector beyond the block's length
TABLE_WORDS = 2048  # no walk's table is longer


def make_window(walk):
    """Functions of one walk that every kernel shares: the geometry of a block and the filter at its borders."""
    position_type = walk.POSITION
    position_bytes = np.dtype(position_type).itemsize
    NUMBERS = 4 * walk.KEYS * walk.BATCH  # byte offsets in a workspace
    FOUND = NUMBERS + 4 * walk.BATCH

    @njit(error_model="numpy")
    def geometry(job):
        """(first stream, first position, first block, blocks) of the window."""
        offset = carray(pointer(word(job, ffi.OFFSET)), (3,), np.uint32)
        length = word(word(job, ffi.CONFIG), LENGTH)
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        position = np.int64((np.uint64(offset[2]) << np.uint64(32)) | np.uint64(offset[1]))
        first = position // block_length
        blocks = (position + length + block_length - 1) // block_length - first if length > 0 else 0
        return np.int64(offset[0]), position, first, blocks

    @njit(error_model="numpy")
    def workspace(job, tile_bytes):
        """Heap for a chunk, to be freed at its end: keys, stream numbers, a block's positions, a tile."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        return ffi.malloc(FOUND + position_bytes * (block_length + VECTOR) + tile_bytes)

    @njit(error_model="numpy")
    def views(job, room):
        """The seed's start, the table, and the arrays of a workspace."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        table = carray(pointer(word(job, ffi.TABLE)), (TABLE_WORDS,), np.uint32)
        mixed = walk.start(carray(pointer(word(job, ffi.SEED)), (2,), np.uint32))
        keys = carray(pointer(room), (walk.KEYS, walk.BATCH), np.uint32)
        numbers = carray(pointer(room + NUMBERS), (walk.BATCH,), np.uint32)
        found = carray(pointer(room + FOUND), (block_length + VECTOR,), position_type)
        return mixed, table, keys, numbers, found

    @njit(error_model="numpy")
    def tile_address(job, room):
        return room + FOUND + position_bytes * (word(word(job, ffi.CONFIG), BLOCK) + VECTOR)

    @njit(error_model="numpy")
    def keep(found, drawn, low, high, diagonal):
        """Move the positions in [low, high) other than `diagonal` to the front; how many they are."""
        kept = 0
        for k in range(drawn):
            position = np.int64(found[k])
            if low <= position < high and position != diagonal:
                found[kept] = found[k]
                kept += 1
        return kept

    @njit(error_model="numpy")
    def visible(found, keys, table, job, stream, i, block, low, high):
        """Positions of a prepared stream in its block, without those outside the window or on the diagonal."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        drawn = np.int64(walk.positions(found, keys, table, block_length, stream, i, block))
        on_diagonal = np.int64(-1)
        if word(word(job, ffi.CONFIG), NO_DIAGONAL) and stream // block_length == block:
            on_diagonal = stream % block_length
        if low > 0 or high < block_length or on_diagonal >= 0:
            drawn = keep(found, drawn, low, high, on_diagonal)
        return drawn

    return geometry, workspace, views, tile_address, visible


@njit(error_model="numpy")
def split(job, threads, work):
    """Divide the streams into chunks: `PER_CHUNK` streams each, one chunk when the work is small."""
    streams = word(word(job, ffi.CONFIG), STREAMS)
    chunks = min(streams, threads * 8, work // (SERIAL // 2)) if threads > 1 and work > SERIAL else 1
    per_chunk = max(1, (streams + chunks - 1) // max(chunks, 1))
    set_word(job, PER_CHUNK, per_chunk)
    set_word(job, ffi.CHUNKS, (streams + per_chunk - 1) // per_chunk)


@njit(error_model="numpy")
def clear(a, begin, end):
    """a[begin:end] = 0; flat arrays and plain loops, which LLVM turns into memset and memcpy."""
    for q in range(begin, end):
        a[q] = 0


@njit(error_model="numpy")
def move(target, at, source, begin, size):
    """target[at : at + size] = source[begin : begin + size]"""
    for q in range(size):
        target[at + q] = source[begin + q]


def make_gather(walk, operand_type, result_type):
    """(plan, body) of the gather product."""
    geometry, workspace, views, tile_address, visible = make_window(walk)
    batch_size = walk.BATCH
    result_bytes = result_type.bitwidth // 8

    @njit(error_model="numpy")
    def plan(job, threads):
        config = word(job, ffi.CONFIG)
        _, _, _, blocks = geometry(job)
        table = carray(pointer(word(job, ffi.TABLE)), (TABLE_WORDS,), np.uint32)
        block_work = walk.expected(table, word(config, BLOCK)) * word(config, COLUMNS) + 16
        split(job, threads, word(config, STREAMS) * blocks * block_work)

    @njit(error_model="numpy", fastmath={"reassoc", "nsz"})
    def total(tile, found, drawn):
        acc = result_type(0)
        for k in range(drawn):
            acc += tile[found[k]]
        return acc

    @njit(error_model="numpy")
    def add_rows(row, operand, base, found, drawn):
        """row += sum over k of operand[base + found[k]]"""
        for k in range(drawn):
            source = operand[base + np.int64(found[k])]
            for c in range(row.shape[0]):
                row[c] += source[c]

    @njit(error_model="numpy")
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams = word(config, BLOCK), word(config, STREAMS)
        length, columns = word(config, LENGTH), word(config, COLUMNS)
        first_stream, position, first_block, blocks = geometry(job)
        tile_length = block_length if columns == 1 else 0
        room = workspace(job, result_bytes * tile_length)
        mixed, table, keys, numbers, found = views(job, room)
        tile = carray(pointer(tile_address(job, room)), (tile_length,), result_type)
        operand = carray(pointer(word(job, ffi.OPERAND)), (length, columns), operand_type)
        result = carray(pointer(word(job, ffi.RESULT)), (streams, columns), result_type)
        begin = chunk * word(job, PER_CHUNK)
        end = min(streams, begin + word(job, PER_CHUNK))
        flat_operand, flat_result = operand.reshape(length * columns), result.reshape(streams * columns)
        clear(flat_result, begin * columns, end * columns)
        for block in range(first_block, first_block + blocks):
            base = block * block_length - position  # of the block in the operand
            low, high = max(0, -base), min(block_length, length - base)
            if columns == 1:  # a padded tile: no position needs a test
                clear(tile, 0, low)
                move(tile, low, flat_operand, base + low, high - low)
                clear(tile, high, block_length)
                low, high = np.int64(0), block_length
            for s0 in range(begin, end, batch_size):
                batch = min(batch_size, end - s0)
                for i in range(batch):
                    numbers[i] = first_stream + s0 + i
                walk.prepare(keys, table, mixed, numbers, batch, block)
                for i in range(batch):
                    drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, low, high)
                    if columns == 1:
                        flat_result[s0 + i] += total(tile, found, drawn)
                    else:
                        add_rows(result[s0 + i], operand, base, found, drawn)
        ffi.free(room)

    return plan, body, None


def make_find_active(operand_type):
    """The rows of an operand with a nonzero, written to the front of `rows`; how many they are."""
    one_byte = operand_type.bitwidth == 8

    @njit(error_model="numpy")
    def find_active(operand, rows):
        streams, columns = operand.shape
        active = s = 0
        if one_byte and columns == 1:  # eight silent events at a time
            address = operand.ctypes.data
            while s + 8 <= streams:
                if load64(address + s) != 0:
                    for t in range(s, s + 8):
                        rows[active] = t
                        active += operand[t, 0] != operand_type(0)
                s += 8
        for t in range(s, streams):
            any_nonzero = False
            for c in range(columns):
                any_nonzero |= operand[t, c] != operand_type(0)
            rows[active] = t  # without a branch: overwritten while the row is silent
            active += any_nonzero
        return active

    return find_active


def make_scatter(walk, operand_type, result_type):
    """(plan, body, finish) of the scatter product: only streams with a nonzero operand are walked."""
    geometry, workspace, views, tile_address, visible = make_window(walk)
    batch_size = walk.BATCH
    result_bytes = result_type.bitwidth // 8
    find_active = make_find_active(operand_type)

    @njit(error_model="numpy")
    def plan(job, threads):
        config = word(job, ffi.CONFIG)
        streams, columns, length = word(config, STREAMS), word(config, COLUMNS), word(config, LENGTH)
        operand = carray(pointer(word(job, ffi.OPERAND)), (streams, columns), operand_type)
        set_word(job, ffi.SCRATCH, ffi.malloc(8 + 4 * streams))
        streams_found = carray(pointer(word(job, ffi.SCRATCH)), (streams,), np.uint32)
        set_word(job, ACTIVE, find_active(operand, streams_found))
        _, _, _, blocks = geometry(job)
        table = carray(pointer(word(job, ffi.TABLE)), (TABLE_WORDS,), np.uint32)
        active = word(job, ACTIVE)
        work = active * blocks * (walk.expected(table, word(config, BLOCK)) * columns + 16)
        groups = 1  # of streams, with a partial result each: from the sizes alone, whatever the threads
        if blocks < 16 and work > SERIAL:
            room = PARTIALS // max(length * columns, 1)
            groups = max(1, min(active, 16 // max(blocks, 1), work // SERIAL, room))
        set_word(job, GROUPS, groups)
        set_word(job, ffi.CHUNKS, blocks * groups)
        if groups > 1:
            set_word(job, ffi.SCRATCH2, ffi.malloc(result_bytes * groups * length * columns))
            set_word(job, ffi.CHUNKS2, max(1, min(threads, length * columns // 2048)))

    @njit(error_model="numpy")
    def partials(job):
        config = word(job, ffi.CONFIG)
        groups = word(job, GROUPS)
        address = word(job, ffi.SCRATCH2) if groups > 1 else word(job, ffi.RESULT)
        return carray(pointer(address), (groups, word(config, LENGTH), word(config, COLUMNS)), result_type)

    @njit(error_model="numpy")
    def body(job, chunk):
        config = word(job, ffi.CONFIG)
        block_length, streams = word(config, BLOCK), word(config, STREAMS)
        length, columns = word(config, LENGTH), word(config, COLUMNS)
        first_stream, position, first_block, _ = geometry(job)
        tile_length = block_length if columns == 1 else 0
        room = workspace(job, result_bytes * tile_length)
        mixed, table, keys, numbers, found = views(job, room)
        tile = carray(pointer(tile_address(job, room)), (tile_length,), result_type)
        operand = carray(pointer(word(job, ffi.OPERAND)), (streams, columns), operand_type)
        active = word(job, ACTIVE)
        rows = carray(pointer(word(job, ffi.SCRATCH)), (streams,), np.uint32)
        groups = word(job, GROUPS)
        group, block = chunk % groups, first_block + chunk // groups
        out = partials(job)[group]
        flat_out = out.reshape(length * columns)
        base = block * block_length - position
        low, high = max(0, -base), min(block_length, length - base)
        clear(tile, 0, tile_length)
        clear(flat_out, (base + low) * columns, (base + high) * columns)
        begin, end = active * group // groups, active * (group + 1) // groups
        window_low, window_high = (np.int64(0), block_length) if columns == 1 else (low, high)
        for a0 in range(begin, end, batch_size):
            batch = min(batch_size, end - a0)
            for i in range(batch):
                numbers[i] = first_stream + rows[a0 + i]
            walk.prepare(keys, table, mixed, numbers, batch, block)
            for i in range(batch):
                drawn = visible(found, keys, table, job, np.int64(numbers[i]), i, block, window_low, window_high)
                source = operand[np.int64(rows[a0 + i])]
                if columns == 1:
                    value = result_type(source[0])
                    for k in range(drawn):
                        tile[found[k]] += value
                else:
                    for k in range(drawn):
                        target = out[base + np.int64(found[k])]
                        for c in range(columns):
                            target[c] += source[c]
        if columns == 1:
            move(flat_out, base + low, tile, low, high - low)
        ffi.free(room)

    @njit(error_model="numpy")
    def finish(job, chunk):
        """Add the groups' partial results, in their order."""
        config = word(job, ffi.CONFIG)
        size = word(config, LENGTH) * word(config, COLUMNS)
        groups, chunks = word(job, GROUPS), word(job, ffi.CHUNKS2)
        parts = carray(pointer(word(job, ffi.SCRATCH2)), (groups, size), result_type)
        result = carray(pointer(word(job, ffi.RESULT)), (size,), result_type)
        begin, end = size * chunk // chunks, size * (chunk + 1) // chunks
        for q in range(begin, end):
            result[q] = parts[0, q]
        for group in range(1, groups):
            for q in range(begin, end):
                result[q] += parts[group, q]

    return plan, body, finish

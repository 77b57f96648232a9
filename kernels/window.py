"""What every kernel shares: the geometry of the block it computes, a workspace, and the filter at the borders.

A kernel works on a block of a matrix: `offset` holds the first stream and (two words) the first position,
`config` the walk's block length, the numbers of streams, positions and columns, and whether entries whose
stream and position agree are left out.
"""

from collections import namedtuple

import numpy as np

from . import ffi
from .ffi import set_word, view, word
from .frontend import njit
from .lanes import greater, lesser
from .simd import LANES

BLOCK, STREAMS, LENGTH, COLUMNS, NO_DIAGONAL = range(5)  # words of `config`
PER_CHUNK = ffi.FREE  # words of a job; further ones are a kernel's own
ACTIVE, GROUPS = ffi.FREE + 1, ffi.FREE + 2
SERIAL = 30_000  # nonzeros below which threads cost more than they bring
VECTOR = 64  # positions may be written up to a vector beyond the block's length
STEPS = 16  # rows of positions that are drawn, then used

Window = namedtuple("Window", "geometry workspace views tile visible plan_streams")


@njit
def split(job, threads, work, least):
    """Divide the streams into chunks: `PER_CHUNK` streams each, one chunk when the work is small.

    With more than one chunk for each thread, a chunk has at least `least` streams.
    """
    streams = word(word(job, ffi.CONFIG), STREAMS)
    chunks = 1
    if threads > 1 and work > SERIAL:
        chunks = lesser(
            greater(threads, lesser(threads * 8, streams // least)), lesser(streams, work // (SERIAL // 2))
        )
    per_chunk = greater(1, (streams + chunks - 1) // greater(chunks, 1))
    if chunks > 1:
        per_chunk = (per_chunk + LANES - 1) // LANES * LANES
    set_word(job, PER_CHUNK, per_chunk)
    set_word(job, ffi.CHUNKS, (streams + per_chunk - 1) // per_chunk)


def make_window(walk) -> Window:
    """The shared functions for one walk."""
    position_type = walk.POSITION
    counted, padded = walk.COUNTED, walk.PADDED  # names that numba prunes branches by
    position_bytes = np.dtype(position_type).itemsize
    # byte offsets in a workspace
    NUMBERS = 4 * walk.KEYS * walk.BATCH
    LANES_ROOM = NUMBERS + 4 * walk.BATCH
    ROWS = LANES_ROOM + walk.GROUP
    FOUND = ROWS + position_bytes * LANES * STEPS

    @njit
    def geometry(job):
        """(first stream, first position, first block, blocks) of the window."""
        offset = view(word(job, ffi.OFFSET), np.uint32)
        length = word(word(job, ffi.CONFIG), LENGTH)
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        position = np.int64((np.uint64(offset[2]) << np.uint64(32)) | np.uint64(offset[1]))
        first = position // block_length
        blocks = (position + length + block_length - 1) // block_length - first if length > 0 else 0
        return np.int64(offset[0]), position, first, blocks

    @njit
    def workspace(job, tile_bytes):
        """Heap for a chunk, to be freed at its end: keys, stream numbers, positions, a tile."""
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        return ffi.malloc(FOUND + position_bytes * (block_length + VECTOR) + tile_bytes + 64)

    @njit
    def views(job, room):
        """The seed's start, the table, and of a workspace: keys, stream numbers, one block's positions, and the
        addresses of a group of streams and of rows of positions across them."""
        table = view(word(job, ffi.TABLE), np.uint32)
        mixed = walk.start(view(word(job, ffi.SEED), np.uint32))
        keys, numbers = view(room, np.uint32), view(room + NUMBERS, np.uint32)
        found = view(room + FOUND, position_type)
        return mixed, table, keys, numbers, found, room + LANES_ROOM, room + ROWS

    @njit
    def tile(job, room):
        """The address of the tile in a workspace, aligned to 8 bytes."""
        return (room + FOUND + position_bytes * (word(word(job, ffi.CONFIG), BLOCK) + VECTOR) + 7) & ~7

    @njit
    def keep(found, drawn, low, high, diagonal):
        """Move the positions in [low, high) other than `diagonal` to the front; how many they are."""
        kept = 0
        for k in range(drawn):
            position = np.int64(found[k])
            found[kept] = found[k]  # without a branch: overwritten while it is not to be kept
            kept += np.int64((low <= position) & (position < high) & (position != diagonal))
        return kept

    @njit
    def visible(found, keys, table, job, stream, i, block, low, high, exact):
        """Positions of a prepared stream in its block, without those outside the window or on the diagonal.

        Unless `exact`, a position may be `block_length` or up to LANES - 1 more, which is none.
        """
        block_length = word(word(job, ffi.CONFIG), BLOCK)
        if counted and walk.total(keys, i) == 0:
            return np.int64(0)
        drawn = np.int64(walk.positions(found, keys, table, block_length, stream, i, block))
        on_diagonal = np.int64(-1)
        if word(word(job, ffi.CONFIG), NO_DIAGONAL) and stream // block_length == block:
            on_diagonal = stream % block_length
        if (padded and exact) or low > 0 or high < block_length or on_diagonal >= 0:
            drawn = keep(found, drawn, low, high, on_diagonal)
        return drawn

    @njit
    def plan_streams(job, threads):
        """The plan of a kernel whose chunks are streams."""
        config = word(job, ffi.CONFIG)
        _, _, _, blocks = geometry(job)
        table = view(word(job, ffi.TABLE), np.uint32)
        expected = walk.expected(table, word(config, BLOCK))
        work = word(config, STREAMS) * blocks * (expected * word(config, COLUMNS) + 16)
        split(job, threads, work, 1 + 2 * word(config, BLOCK) // (expected + 1))  # a tile pays for being copied

    return Window(geometry, workspace, views, tile, visible, plan_streams)

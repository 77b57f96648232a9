"""The kernels in plain JAX: for machines without numba or CUDA, and an independent check of both.

Streams are taken in chunks, each chunk block by block and each block some entries at a time, so that
time grows with the nonzeros and memory stays small. The geometry is that of the compiled kernels: `offset`
holds the first stream and, in two words (low, high), the first position.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ._walk import get_walk

CHUNK = 1 << 18  # entries looked at together


def _visit(block, table, seed, offset, streams, init, visitor):
    """Fold `visitor(carry, index, valid)` over the entries of `streams`, `index` counted within the window."""
    walk = get_walk(block.walk)
    block_length, length = block.block_length, block.positions
    first_block, start = walk.locate(offset[1], offset[2], block_length)
    numbers = offset[0] + streams.astype(jnp.uint32)
    blocks = -(-(length + block_length - 1) // block_length) if length else 0

    def visit(i, carry):
        number = first_block + i.astype(jnp.uint32)
        base = i.astype(jnp.int32) * block_length - start  # of the block in the window

        def step(state_carry):
            state, position, valid = walk.draw(table, state_carry[0], block_length)
            index = base + position.astype(jnp.int32)
            valid &= (index >= 0) & (index < length)
            if not block.diagonal:
                on_diagonal = walk.compose(number, position, block_length)
                valid &= ~((on_diagonal[0] == 0) & (on_diagonal[1] == numbers[:, None]))
            return state, visitor(state_carry[1], index, valid)

        state = walk.start(table, seed, numbers, number, block_length)
        return jax.lax.while_loop(lambda both: walk.more(both[0], block_length), step, (state, carry))[1]

    return jax.lax.fori_loop(0, blocks, visit, init)


def _width(block):
    """Entries of a stream that are looked at together."""
    return get_walk(block.walk).width


def _by_chunks(block, width, one_chunk):
    """Apply `one_chunk(streams)` to chunks of the streams and put its results together."""
    if block.positions >= 1 << 31:
        raise NotImplementedError(
            f"backend='jax' walks axes of fewer than 2^31 positions, got {block.positions}; use backend='numba'"
        )
    rows = max(1, min(block.streams, CHUNK // max(width, 1)))
    chunks = -(-block.streams // rows)
    streams = jnp.arange(chunks * rows, dtype=jnp.uint32).reshape(chunks, rows)
    parts = jax.lax.map(one_chunk, streams)
    return parts.reshape(chunks * rows, *parts.shape[2:])[: block.streams]


def gather(block, table, seed, offset, operand, out):
    """result[s] = sum of operand[p] over the positions p of stream s; `operand` is (positions, columns)."""
    columns, dtype = operand.shape[1], out.dtype
    if 0 in (block.streams, block.positions, columns):
        return jnp.zeros((block.streams, columns), dtype)
    operand = operand.astype(dtype)

    def one_chunk(streams):
        def add(total, index, valid):
            rows = jnp.take(operand, index, axis=0, mode="clip")
            return total + jnp.where(valid[:, :, None], rows, 0).sum(axis=1, dtype=dtype)

        init = jnp.zeros((streams.shape[0], columns), dtype)
        return _visit(block, table, seed, offset, streams, init, add)

    return _by_chunks(block, _width(block) * columns, one_chunk)


def scatter(block, table, seed, offset, operand, out):
    """result[p] = sum of operand[s] over the streams s that have position p; `operand` is (streams, columns)."""
    columns, dtype = operand.shape[1], out.dtype
    if 0 in (block.streams, block.positions, columns):
        return jnp.zeros((block.positions, columns), dtype)
    width = _width(block)
    rows = max(1, min(block.streams, CHUNK // (width * columns)))
    chunks = -(-block.streams // rows)
    padded = jnp.zeros((chunks * rows, columns), dtype).at[: block.streams].set(operand.astype(dtype))

    def one_chunk(result, chunk):
        streams = chunk * np.uint32(rows) + jnp.arange(rows, dtype=jnp.uint32)
        values = jax.lax.dynamic_slice_in_dim(padded, chunk * np.uint32(rows), rows)

        def add(result, index, valid):
            target = jnp.where(valid, index, block.positions)  # out of range: dropped
            added = jnp.broadcast_to(values[:, None, :], (rows, width, columns))
            return result.at[target].add(added, mode="drop")

        return _visit(block, table, seed, offset, streams, result, add), None

    init = jnp.zeros((block.positions, columns), dtype)
    return jax.lax.scan(one_chunk, init, jnp.arange(chunks, dtype=jnp.uint32))[0]


def count(block, table, seed, offset, _, out):
    """Nonzeros of each stream in the window."""
    if 0 in (block.streams, block.positions):
        return jnp.zeros((block.streams,), jnp.uint32)

    def one_chunk(streams):
        init = jnp.zeros(streams.shape, jnp.uint32)
        add = lambda total, index, valid: total + valid.sum(axis=1, dtype=jnp.uint32)
        return _visit(block, table, seed, offset, streams, init, add)

    return _by_chunks(block, _width(block), one_chunk)


def dense(block, table, seed, offset, _, out):
    """The 0/1 block as uint8, a row per stream."""
    if 0 in (block.streams, block.positions):
        return jnp.zeros((block.streams, block.positions), jnp.uint8)

    def one_chunk(streams):
        rows = jnp.arange(streams.shape[0])[:, None]

        def mark(marks, index, valid):
            return marks.at[rows, jnp.where(valid, index, block.positions)].set(1, mode="drop")

        init = jnp.zeros((streams.shape[0], block.positions), jnp.uint8)
        return _visit(block, table, seed, offset, streams, init, mark)

    return _by_chunks(block, max(_width(block), block.positions), one_chunk)


def fill(block, table, seed, offset, starts, out):
    """The positions of all streams, ascending within each: those of stream s begin at starts[s]."""
    capacity = out.shape[0]
    result = jnp.zeros((capacity,), jnp.int32)
    if 0 in (block.streams, block.positions, capacity):
        return result
    columns = jnp.arange(block.positions, dtype=jnp.int32)
    one = dataclasses.replace(block, streams=1)

    def add(result, stream):
        row = dense(one, table, seed, offset.at[0].add(stream), None, None)[0]
        rank = jnp.cumsum(row, dtype=jnp.int32) - 1
        target = jnp.where(row > 0, starts[stream] + rank, capacity)
        return result.at[target].set(columns, mode="drop"), None

    return jax.lax.scan(add, result, jnp.arange(block.streams, dtype=jnp.uint32))[0]

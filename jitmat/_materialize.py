"""The stored form of a pattern, for scipy: the same walk, replayed in pieces of bounded size."""

from __future__ import annotations

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.core import Tracer

from ._compute import Connectivity, stream_counts
from ._products import jits_fill_p

PIECE = 1 << 24  # nonzeros drawn at once
WIDEST = 1 << 30  # positions of a piece: indices in a kernel are 32 bits


def window(connectivity: Connectivity, stream: int, streams: int, position: int, positions: int) -> Connectivity:
    """The block of `streams` x `positions` that begins at (stream, position) of this one."""
    pattern = connectivity.pattern
    start, size = (stream, position), (streams, positions)
    if not pattern.corder:
        start, size = start[::-1], size[::-1]
    origin = (pattern.origin[0] + start[0], pattern.origin[1] + start[1])
    return connectivity._replace(pattern=dataclasses.replace(pattern, origin=origin, shape=size))


def concrete(connectivity: Connectivity, what: str) -> Connectivity:
    """Refuse a traced seed or prob, on which the number of nonzeros depends."""
    if any(isinstance(x, Tracer) for x in (connectivity.prob, connectivity.seed)):
        raise TypeError(f"{what} needs a concrete prob and seed, since the number of nonzeros follows from them")
    return connectivity


def count_nonzeros(connectivity: Connectivity, backend=None) -> int:
    """The number of nonzeros."""
    return sum(int(counts.sum(dtype=np.int64)) for counts in _counts(concrete(connectivity, "nnz"), backend))


def count_streams(connectivity: Connectivity, backend=None) -> np.ndarray:
    """int64 nonzeros of each stream."""
    return sum(_counts(connectivity, backend), np.zeros(connectivity.pattern.block.streams, np.int64))


def _counts(connectivity, backend):
    """Nonzeros of each stream, in parts of it that a kernel's 32 bits count."""
    block = connectivity.pattern.block
    for position in range(0, block.positions, WIDEST):
        piece = window(connectivity, 0, block.streams, position, min(WIDEST, block.positions - position))
        with jax.ensure_compile_time_eval():
            yield np.asarray(stream_counts(piece, backend))


def csr_parts(connectivity: Connectivity, weight, backend=None):
    """(data, indices, indptr) of the CSR form as JAX arrays; `weight` may be traced."""
    stored = to_scipy(connectivity, np.int8(1), backend).tocsr()
    if stored.indices.dtype.itemsize > 4 and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(f"{stored.nnz} nonzeros of shape {stored.shape} need 64-bit indices: enable jax_enable_x64")
    data = jnp.broadcast_to(weight, stored.indices.shape)
    return data, jnp.asarray(stored.indices), jnp.asarray(stored.indptr)


def to_scipy(connectivity: Connectivity, weight, backend=None, progress=False):
    """A CSR array when streams are rows, else a CSC array; indices are sorted. `progress` shows a bar."""
    bar = _progress_bar() if progress else _NoBar
    concrete(connectivity, "a stored matrix")
    pattern = connectivity.pattern
    block = pattern.block
    with jax.ensure_compile_time_eval():
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(count_streams(connectivity, backend))])
        index = np.int32 if max(indptr[-1], block.positions) < 1 << 31 else np.int64
        indices = np.empty(indptr[-1], index)
        fill = _fill_wide if block.positions > WIDEST else _fill
        with bar(total=int(indptr[-1]), unit=" nonzeros", unit_scale=True) as shown:
            for drawn in fill(connectivity, indices, indptr, backend):
                shown.update(drawn)
    weight = np.asarray(weight)
    halves = jnp.issubdtype(weight.dtype, jnp.floating) and weight.dtype.itemsize == 2  # which scipy does not know
    data = np.full(indptr[-1], weight.astype(np.float32) if halves else weight)
    make = scipy.sparse.csr_array if pattern.corder else scipy.sparse.csc_array
    stored = make((data, indices, indptr.astype(index)), shape=pattern.shape)
    stored.has_sorted_indices = True
    return stored


def _progress_bar():
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    return tqdm


class _NoBar(contextlib.nullcontext):
    """Stands where no bar is shown."""

    def __init__(self, **_):
        super().__init__(self)

    def update(self, drawn):
        """Nothing to show."""


def _fill(connectivity, indices, indptr, backend):
    """Positions of all streams, a fixed number of streams at a time so that few programs are compiled; yields how many
    are drawn."""
    block = connectivity.pattern.block
    if block.streams == 0 or indptr[-1] == 0:
        return
    per_piece = min(block.streams, max(1, int(PIECE // max(indptr[-1] / block.streams, 1))))
    begins = np.arange(0, block.streams, per_piece)
    ends = np.minimum(begins + per_piece, block.streams)
    capacity = int((indptr[ends] - indptr[begins]).max())
    for begin, end in zip(begins, ends, strict=True):
        piece = window(connectivity, int(begin), int(end - begin), 0, block.positions)
        starts = jnp.asarray((indptr[begin : end + 1] - indptr[begin]).astype(np.int32))
        (found,) = jits_fill_p(
            *piece.structure(), starts, block=piece.pattern.block, capacity=capacity, backend=backend
        )
        indices[indptr[begin] : indptr[end]] = np.asarray(found)[: indptr[end] - indptr[begin]]
        yield int(indptr[end] - indptr[begin])


def _fill_wide(connectivity, indices, indptr, backend):
    """The same where positions do not fit in 32 bits: stream by stream, window by window."""
    block = connectivity.pattern.block
    for stream in range(block.streams):
        at = indptr[stream]
        for position in range(0, block.positions, WIDEST):
            width = min(WIDEST, block.positions - position)
            part = np.zeros(2, np.int64)
            piece = window(connectivity, stream, 1, position, width)
            part[1] = count_nonzeros(piece, backend)
            if part[1]:
                found = np.empty(part[1], np.int32)
                yield from _fill(piece, found, part, backend)
                indices[at : at + part[1]] = found.astype(np.int64) + position
            at += part[1]

"""Parts of a matrix by index: views, lines, single entries and a diagonal, each walked where it lies and nowhere else.

A line or an entry is the product of a window with one event: a line along a stream is that stream's walk, a line
across the streams one look-up in each.
"""

from __future__ import annotations

import dataclasses
import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from . import _words as words
from ._compute import Connectivity, multiply
from ._materialize import window
from ._products import jits_dense_p

SIDE = 256  # of the squares in which a diagonal is drawn


def split_key(key, shape):
    """The two indices that W[key] means: a `range` for a block, else integers within the shape, as an array."""
    key = key if isinstance(key, tuple) else (key,)
    if any(index is None for index in key):
        raise IndexError("a matrix has two dimensions and None would add a third: W[i][None] adds one to a line")
    dots = [place for place, index in enumerate(key) if index is Ellipsis]
    if len(key) - len(dots) > 2 or len(dots) > 1:
        raise IndexError(f"a matrix is indexed by a row and a column, W[i, j]; got {len(key)} indices")
    missing = (slice(None),) * (2 + len(dots) - len(key))
    key = key[: dots[0]] + missing + key[dots[0] + 1 :] if dots else key + missing
    return tuple(_index(index, size, axis) for axis, (index, size) in enumerate(zip(key, shape, strict=True)))


def _index(index, size, axis):
    if isinstance(index, slice):
        return _bounds(index, size)
    if isinstance(index, bool) or getattr(index, "dtype", None) == np.bool_:
        raise TypeError("a matrix is not indexed by booleans: use np.flatnonzero(mask)")
    if isinstance(index, Tracer):
        return _traced(index, size, axis)
    numbers = _integers(index)
    wrong = (numbers < -size) | (numbers >= size)
    if wrong.any():
        raise IndexError(f"index {numbers[wrong].flat[0]} is out of range for axis {axis} of size {size}")
    numbers = numbers.astype(np.int64)
    return np.where(numbers < 0, numbers + size, numbers)


def _traced(index, size, axis):
    """Counted from the end where negative, and held within the shape, as JAX does with its own arrays."""
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise TypeError(f"an index must be an integer, got an array of {index.dtype}")
    if size == 0:
        raise IndexError(f"axis {axis} is empty, so that no index is in range")
    index = index.astype(jnp.promote_types(index.dtype, jnp.int32))
    if size > jnp.iinfo(index.dtype).max:
        raise ValueError(f"axis {axis} of size {size} takes traced indices of int64 only, got {index.dtype}")
    return jnp.clip(jnp.where(index < 0, index + size, index), 0, size - 1)


def _bounds(index, size):
    try:
        start, stop, step = index.indices(size)
    except TypeError:
        raise TypeError(
            f"the bounds of a block are concrete integers, got {index}: lines at traced places are"
            " W[i + jnp.arange(k)]"
        ) from None
    if step != 1:
        raise NotImplementedError(
            f"a view takes every line of a block, got step {step}: W[np.arange(start, stop, step)] gives such lines"
            " dense"
        )
    return range(start, max(start, stop))


def _integers(index):
    try:
        return np.asarray(operator.index(index))
    except TypeError:
        pass
    try:
        numbers = np.asarray(index)
    except (TypeError, ValueError):
        numbers = np.empty(1, object)
    if isinstance(index, list) and numbers.size == 0:
        return numbers.astype(np.int64)
    if numbers.dtype.kind == "b":
        raise TypeError("a matrix is not indexed by booleans: use np.flatnonzero(mask)")
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"an index must be an integer, a slice, or integers in a list or array, got {index!r}")
    return numbers


def view(connectivity: Connectivity, rows, columns) -> Connectivity:
    """The block of these ranges; an index that is none leaves its axis whole."""
    pair = zip((rows, columns), connectivity.pattern.shape, strict=True)
    rows, columns = (index if isinstance(index, range) else range(size) for index, size in pair)
    along, across = (rows, columns) if connectivity.pattern.corder else (columns, rows)
    return window(connectivity, along.start, len(along), across.start, len(across))


def pick(connectivity: Connectivity, weight, rows, columns, backend=None):
    """The dense rows, columns or entries of these numbers; a `range` stands for all of an axis."""
    if isinstance(columns, range):
        return _pick(connectivity, weight, rows, np.int64(0), len(columns), backend)
    if isinstance(rows, range):
        return jnp.moveaxis(_pick(connectivity.T, weight, columns, np.int64(0), len(rows), backend), -1, 0)
    try:
        np.broadcast_shapes(rows.shape, columns.shape)
    except ValueError:
        raise IndexError(f"rows of shape {rows.shape} and columns of shape {columns.shape} do not broadcast") from None
    return _pick(connectivity, weight, rows, columns, 1, backend)[..., 0]


def _pick(connectivity, weight, rows, columns, width, backend):
    """`width` entries from each of (rows, columns) on, along the row."""
    table, seed, _ = connectivity.structure()
    pattern = dataclasses.replace(connectivity.pattern, shape=(1, width))
    offsets = _offsets(pattern, rows, columns)
    return _windows(weight, table, seed, offsets, block=pattern.block, gather=not pattern.corder, backend=backend)


@functools.partial(jax.jit, static_argnames=("block", "gather", "backend"))
def _windows(weight, table, seed, offsets, *, block, gather, backend):
    """The window at each offset times one event."""
    one = jnp.ones(1, bool)
    params = {"block": block, "gather": gather, "binary": True, "deterministic": False, "backend": backend}
    line = lambda offset: multiply(weight, table, seed, offset, one, **params)
    for _ in offsets.shape[:-1]:
        line = jax.vmap(line)
    return line(offsets)


def _offsets(pattern, rows, columns):
    """The kernels' offset of windows that begin at these entries, of shape (..., 3)."""
    (stream, position), (first, start) = (rows, columns), pattern.origin
    if not pattern.corder:
        stream, position, first, start = position, stream, start, first
    if not isinstance(stream, Tracer) and not isinstance(position, Tracer):
        position = position + start
        parts = np.broadcast_arrays(stream + first, position & 0xFFFFFFFF, position >> 32)
        return np.stack(parts, axis=-1).astype(np.uint32)
    high, low = words.add(words.split(start), _two_words(position))
    return jnp.stack(jnp.broadcast_arrays(_two_words(stream)[1] + np.uint32(first), low, high), axis=-1)


def _two_words(index):
    """(high, low) of integers of at least 0."""
    high = index >> 32 if index.dtype.itemsize == 8 else jnp.zeros_like(index)
    return jnp.asarray(high.astype(np.uint32)), jnp.asarray(index.astype(np.uint32))


def diagonal(connectivity: Connectivity, weight, backend=None):
    """The entries (i, i): squares along the diagonal are drawn one after the other."""
    size = min(connectivity.pattern.shape)
    if size == 0:
        return jnp.zeros(0, weight.dtype)
    side = min(SIDE, size)
    pattern = dataclasses.replace(connectivity.pattern, shape=(side, side))
    held = _diagonal(*connectivity.structure(), size=size, block=pattern.block, backend=backend)
    return jnp.where(held != 0, weight, jnp.zeros((), weight.dtype))


@functools.partial(jax.jit, static_argnames=("size", "block", "backend"))
def _diagonal(table, seed, offset, *, size, block, backend):
    side, nothing = block.streams, jnp.zeros((1,), jnp.int32)

    def square(start):
        high, low = words.add((offset[2], offset[1]), (np.uint32(0), start))
        at = jnp.stack([offset[0] + start, low, high])
        return jnp.diagonal(jits_dense_p(table, seed, at, nothing, block=block, backend=backend)[0])

    squares = -(-size // side)
    starts = np.minimum(np.arange(squares) * side, size - side).astype(np.uint32)  # the last one reaches back
    parts = jax.lax.map(square, jnp.asarray(starts))
    return jnp.concatenate([parts[:-1].reshape(-1), parts[-1][squares * side - size :]])

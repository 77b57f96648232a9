"""The CUDA backend: products, and the pattern itself, as calls of kernels that JAX can trace.

All functions take the operands of the kernels as they are: `table`, `seed` (high and low word), `offset` (first
stream, low and high word of the first position) and `x` with its columns last.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from . import _cuda_columns, _cuda_driver, _cuda_vectors
from ._cuda_block import OFFSET, SEED, TABLE, Block, X, integer, touched
from ._cuda_block import walk as defines
from ._cuda_launch import Launch, call


def available() -> tuple[bool, str]:
    """Whether the kernels can run here, and if not, one sentence that says why and what to install."""
    try:
        device = _cuda_driver.device()
        _cuda_driver.target(device.capability, device.alike)
        _cuda_driver.folder()
        from .kernels import ffi  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return False, f"numba cannot be used ({error}); `pip install numba`"
    except (OSError, RuntimeError) as error:
        return False, str(error)
    problem = ffi.layout_problem()
    return problem is None, problem or ""


def product(table, seed, offset, x, *, gather, walk, size, streams, length, diagonal, deterministic=False):
    """P @ x for an x per position (gather), or P.T @ x for an x per stream (scatter), P being 0/1.

    x is (length or streams, columns) in float32, float64, int32 or int64, or a bool or uint8 mask, whose result is a
    uint32 count. Sums of floats are added in one order, but in scatter without `deterministic`.
    """
    columns, result = x.shape[1], np.dtype(x.dtype)
    if result in (np.dtype(bool), np.dtype(np.uint8)):
        x, result = x.view(jnp.uint8), np.dtype(np.uint32)
    shape = (streams if gather else length, columns)
    if 0 in (streams, length, columns):
        return jnp.zeros(shape, result)
    block = Block(walk, size, streams, length, bool(diagonal), columns, np.dtype(x.dtype), result)
    way = _cuda_columns if columns > 1 else _cuda_vectors
    launches, scratch = (way.gather if gather else way.scatter)(block, deterministic)
    out, *_ = call(launches, [jax.ShapeDtypeStruct(shape, result), *scratch], table, seed, offset, x)
    return out


def count(table, seed, offset, *, walk, size, streams, length, diagonal):
    """uint32 number of nonzeros of each stream inside the window."""
    if 0 in (streams, length):
        return jnp.zeros(streams, np.uint32)
    launch = _materialize("count", walk, size, streams, length, diagonal, 1, [(0, 3)])
    return call([launch], [jax.ShapeDtypeStruct((streams,), np.uint32)], table, seed, offset)[0]


def fill(table, seed, offset, starts, *, capacity, walk, size, streams, length, diagonal):
    """int32 positions of the nonzeros, ascending within each stream, that of stream s from starts[s] on."""
    if 0 in (streams, length, capacity):
        return jnp.zeros(capacity, np.int32)
    launch = _materialize("fill", walk, size, streams, length, diagonal, 1, [X, (0, 4)], [integer(capacity)])
    return call([launch], [jax.ShapeDtypeStruct((capacity,), np.int32)], table, seed, offset, starts)[0]


def dense(table, seed, offset, *, walk, size, streams, length, diagonal):
    """The pattern as uint8, (streams, length)."""
    if 0 in (streams, length):
        return jnp.zeros((streams, length), np.uint8)
    launch = _materialize("dense", walk, size, streams, length, diagonal, min(touched(length, size), 1024), [(0, 3)])
    return call([launch], [jax.ShapeDtypeStruct((streams, length), np.uint8)], table, seed, offset)[0]


def _materialize(function, walk, size, streams, length, diagonal, split, buffers, more=()):
    grid = (min(-(-streams // 8), 1 << 20), split)
    arguments = [TABLE, SEED, OFFSET, *buffers, integer(streams), integer(length), *more]
    return Launch("materialize", (*defines(walk, size, diagonal), "THREADS=256"), function, grid, 256, 0, arguments)

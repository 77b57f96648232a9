"""One entry for every backend: run a kernel ("gather", "scatter", "count", "dense", "fill") on a block.

Operands are (table, seed, offset, x) with x of two dimensions in a product, the starts in "fill", and of no
meaning otherwise. Where a backend cannot run on this machine the plain JAX kernels stand in, with one warning.
"""

from __future__ import annotations

import functools
import warnings

import jax

from . import _cpu, _cuda, _jax_kernels


def run_jax(kernel: str, block, operands, out: jax.ShapeDtypeStruct, deterministic: bool) -> jax.Array:
    return getattr(_jax_kernels, kernel)(block, *operands, out)


def run_numba(kernel: str, block, operands, out: jax.ShapeDtypeStruct, deterministic: bool) -> jax.Array:
    if problem := _cpu.problem():
        _warn_of_fallback(problem)
        return run_jax(kernel, block, operands, out, deterministic)
    return _cpu.call(kernel, block, operands, out)


def run_cuda(kernel: str, block, operands, out: jax.ShapeDtypeStruct, deterministic: bool) -> jax.Array:
    ready, problem = _cuda.available()
    if not ready:
        _warn_of_fallback(problem)
        return run_jax(kernel, block, operands, out, deterministic)
    table, seed, offset, x = operands
    geometry = {
        "walk": block.walk,
        "size": block.block_length,
        "streams": block.streams,
        "length": block.positions,
        "diagonal": block.diagonal,
    }
    if kernel in ("gather", "scatter"):
        return _cuda.product(
            table, seed, offset, x, gather=kernel == "gather", deterministic=deterministic, **geometry
        )
    if kernel == "fill":
        return _cuda.fill(table, seed, offset, x, capacity=out.shape[0], **geometry)
    return getattr(_cuda, kernel)(table, seed, offset, **geometry)


@functools.cache
def _warn_of_fallback(problem: str):
    """Say once that the plain JAX kernels stand in."""
    warnings.warn(f"jitmat runs its plain JAX kernels, which are slower: {problem}", RuntimeWarning, stacklevel=2)

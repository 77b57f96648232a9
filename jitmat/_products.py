"""The four product primitives and their rules, and the three that materialize a pattern.

All of them compute with the 0/1 pattern P of a block; the weight multiplies outside, once. Operands are
(table, seed, offset, x): the walk's table for `prob`, the seed's two words (high, low), the first stream
and position, and the vector or matrix. `gather` says whether the result has an element per stream.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from . import _cpu, _jax_kernels
from ._op import XLACustomKernel, general_batching_rule


def events(x):
    """Where a binary product's operand is active: above 0 for floats, nonzero for booleans and integers."""
    if x.dtype == np.bool_:
        return x
    return x > 0 if jnp.issubdtype(x.dtype, jnp.floating) else x != 0


def _sizes(block, gather):
    """(size of the result, size of the operand)"""
    return (block.streams, block.positions) if gather else (block.positions, block.streams)


def _make_product(name: str, binary: bool, columns: bool) -> XLACustomKernel:
    """A primitive that computes P @ x, with x made binary first or not, for a vector or a matrix."""
    kernel = XLACustomKernel(name)

    def outs(table, seed, offset, x, *, block, gather, dtype):
        return [jax.ShapeDtypeStruct((_sizes(block, gather)[0], *x.shape[1:]), dtype)]

    def with_kernel(compute):
        """A generator around `compute(block, gather, table, seed, offset, x2d, out2d)`."""

        def generator(*, outs, block, gather, dtype):
            def run(table, seed, offset, x):
                x = events(x) if binary else x
                x = x if columns else x[:, None]
                out = jax.ShapeDtypeStruct((outs[0].shape[0], x.shape[1]), np.uint32 if binary else dtype)
                y = compute(block, gather, table, seed, offset, x, out)
                return [y.reshape(outs[0].shape).astype(dtype)]

            return run

        return generator

    def in_numba(block, gather, table, seed, offset, x, out):
        if _cpu.problem():
            _cpu.warn_of_fallback()
            return in_jax(block, gather, table, seed, offset, x, out)
        kind = "gather" if gather else "scatter"
        return _cpu.call(block, kind, table, seed, offset, x, out, columns=x.shape[1])

    def in_jax(block, gather, table, seed, offset, x, out):
        product = _jax_kernels.gather if gather else _jax_kernels.scatter
        return product(block, table, seed, offset, x, out.dtype)

    def jvp(tangent, table, seed, offset, x, *, outs, block, gather, dtype, backend):
        # d(P x) = P dx; a binary product is given the same derivative, so that surrogate gradients flow
        product = jitsmm_p if columns else jitsmv_p
        tangent = tangent.astype(dtype)
        return product(table, seed, offset, tangent, block=block, gather=gather, dtype=dtype, backend=backend)

    def transpose(cotangents, table, seed, offset, x, *, outs, block, gather, dtype, backend):
        # <c, P x> = <P^T c, x>, and P^T is the same streams the other way round
        (cotangent,) = cotangents
        if type(cotangent) is ad.Zero:
            return [None, None, None, ad.Zero(x.aval)]
        (y,) = kernel(table, seed, offset, cotangent, block=block, gather=not gather, dtype=dtype, backend=backend)
        return [None, None, None, y]

    def batch(operands, axes, *, outs, backend, **params):
        *structure, x = operands
        if any(axis is not None for axis in axes[:-1]) or axes[-1] is None:
            return general_batching_rule(kernel, operands, axes, outs=outs, backend=backend, **params)
        x = jnp.moveaxis(x, axes[-1], 1)  # (n, batch, ...): the batch becomes columns of one product
        (y,) = jitsmm(*structure, x.reshape(x.shape[0], -1), backend=backend, **params)
        return [y.reshape(y.shape[0], *x.shape[1:])], [1]

    def jitsmm(*operands, **params):
        return (binary_jitsmm_p if binary else jitsmm_p)(*operands, **params)

    kernel.def_call(outs)
    kernel.def_numba_kernel(with_kernel(in_numba))
    kernel.def_jax_kernel(with_kernel(in_jax))
    kernel.def_jvp_rule2(None, None, None, jvp)
    if not binary:
        kernel.def_transpose_rule(transpose)
    kernel.def_batching_rule(batch)
    return kernel


jitsmv_p = _make_product("jitsmv", binary=False, columns=False)
jitsmm_p = _make_product("jitsmm", binary=False, columns=True)
binary_jitsmv_p = _make_product("binary_jitsmv", binary=True, columns=False)
binary_jitsmm_p = _make_product("binary_jitsmm", binary=True, columns=True)


def _make_materialization(name, outs, compute) -> XLACustomKernel:
    """A primitive over (table, seed, offset, extra) that reads the pattern itself."""
    kernel = XLACustomKernel(name)

    def in_numba(*, outs, block, **params):
        if _cpu.problem():
            _cpu.warn_of_fallback()
            return in_jax(outs=outs, block=block, **params)
        kind = name.removeprefix("jits_")
        return lambda table, seed, offset, extra: [_cpu.call(block, kind, table, seed, offset, extra, outs[0])]

    def in_jax(*, outs, block, **params):
        return lambda table, seed, offset, extra: [compute(block, table, seed, offset, extra, outs[0])]

    kernel.def_call(outs)
    kernel.def_numba_kernel(in_numba)
    kernel.def_jax_kernel(in_jax)
    return kernel


jits_count_p = _make_materialization(
    "jits_count",
    lambda table, seed, offset, extra, *, block: [jax.ShapeDtypeStruct((block.streams,), np.uint32)],
    lambda block, table, seed, offset, extra, out: _jax_kernels.count(block, table, seed, offset),
)
jits_dense_p = _make_materialization(
    "jits_dense",
    lambda table, seed, offset, extra, *, block: [jax.ShapeDtypeStruct((block.streams, block.positions), np.uint8)],
    lambda block, table, seed, offset, extra, out: _jax_kernels.dense(block, table, seed, offset),
)
jits_fill_p = _make_materialization(
    "jits_fill",
    lambda table, seed, offset, starts, *, block, capacity: [jax.ShapeDtypeStruct((capacity,), np.int32)],
    lambda block, table, seed, offset, starts, out: _jax_kernels.fill(
        block, table, seed, offset, starts, out.shape[0]
    ),
)

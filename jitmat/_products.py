"""The four product primitives and their rules, and the three that materialize a pattern.

All of them compute with the 0/1 pattern P of a block; the weight multiplies outside, once. Operands are
(table, seed, offset, x): the walk's table for `prob`, the seed's two words (high, low), the first stream
and position, and the vector or matrix. `gather` says whether the result has an element per stream.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from ._backends import run_cuda, run_jax, run_numba
from ._op import XLACustomKernel, general_batching_rule


def events(x):
    """Where a binary product's operand is active: above 0 for floats, nonzero for booleans and integers."""
    if x.dtype == np.bool_:
        return x
    return x > 0 if jnp.issubdtype(x.dtype, jnp.floating) else x != 0


def _define_kernels(kernel: XLACustomKernel, generator):
    """Register `generator(run, **params)` with the `run` of every backend."""
    kernel.def_numba_kernel(functools.partial(generator, run_numba))
    kernel.def_cuda_raw_kernel(functools.partial(generator, run_cuda))
    kernel.def_jax_kernel(functools.partial(generator, run_jax))


def _make_product(name: str, binary: bool, columns: bool) -> XLACustomKernel:
    """A primitive that computes P @ x, with x made binary first or not, for a vector or a matrix."""
    kernel = XLACustomKernel(name)

    def outs(table, seed, offset, x, *, block, gather, dtype, deterministic):
        size = block.streams if gather else block.positions
        return [jax.ShapeDtypeStruct((size, *x.shape[1:]), dtype)]

    def generator(run, *, outs, block, gather, dtype, deterministic):
        def compute(table, seed, offset, x):
            x = events(x) if binary else x
            x = x if columns else x[:, None]
            out = jax.ShapeDtypeStruct((outs[0].shape[0], x.shape[1]), np.uint32 if binary else dtype)
            y = run("gather" if gather else "scatter", block, (table, seed, offset, x), out, deterministic)
            return [y.reshape(outs[0].shape).astype(dtype)]

        return compute

    def jvp(tangent, table, seed, offset, x, *, outs, dtype, **params):
        # d(P x) = P dx; a binary product is given the same derivative, so that surrogate gradients flow
        product = jitsmm_p if columns else jitsmv_p
        return product(table, seed, offset, tangent.astype(dtype), dtype=dtype, **params)

    def transpose(cotangents, table, seed, offset, x, *, outs, gather, **params):
        # <c, P x> = <P^T c, x>, and P^T is the same streams the other way round
        (cotangent,) = cotangents
        if type(cotangent) is ad.Zero:
            return [None, None, None, ad.Zero(x.aval)]
        return [None, None, None, *kernel(table, seed, offset, cotangent, gather=not gather, **params)]

    def batch(operands, axes, *, outs, **params):
        *structure, x = operands
        if any(axis is not None for axis in axes[:-1]) or axes[-1] is None:
            return general_batching_rule(kernel, operands, axes, outs=outs, **params)
        x = jnp.moveaxis(x, axes[-1], 1)  # (n, batch, ...): the batch becomes columns of one product
        matmat = binary_jitsmm_p if binary else jitsmm_p
        (y,) = matmat(*structure, x.reshape(x.shape[0], math.prod(x.shape[1:])), **params)
        return [y.reshape(y.shape[0], *x.shape[1:])], [1]

    kernel.def_outs(outs)
    _define_kernels(kernel, generator)
    kernel.def_jvp_rule2(None, None, None, jvp)
    if not binary:
        kernel.def_transpose_rule(transpose)
    kernel.def_batching_rule(batch)
    return kernel


jitsmv_p = _make_product("jitsmv", binary=False, columns=False)
"""The primitive of `jitsmv`: P @ x with the 0/1 pattern P and a vector x. An `XLACustomKernel`."""
jitsmm_p = _make_product("jitsmm", binary=False, columns=True)
"""The primitive of `jitsmm`: P @ X with a matrix X."""
binary_jitsmv_p = _make_product("binary_jitsmv", binary=True, columns=False)
"""The primitive of `binary_jitsmv`: how many active elements of x each row of P meets."""
binary_jitsmm_p = _make_product("binary_jitsmm", binary=True, columns=True)
"""The primitive of `binary_jitsmm`: the same for each column of X."""


def _make_materialization(name: str, outs) -> XLACustomKernel:
    """A primitive over (table, seed, offset, x) that reads the pattern itself."""
    kernel = XLACustomKernel(f"jits_{name}")

    def generator(run, *, outs, block, **params):
        return lambda *operands: [run(name, block, operands, outs[0], False)]

    kernel.def_outs(outs)
    _define_kernels(kernel, generator)
    return kernel


jits_count_p = _make_materialization(
    "count", lambda *operands, block: [jax.ShapeDtypeStruct((block.streams,), np.uint32)]
)
jits_dense_p = _make_materialization(
    "dense", lambda *operands, block: [jax.ShapeDtypeStruct((block.streams, block.positions), np.uint8)]
)
jits_fill_p = _make_materialization(
    "fill", lambda *operands, block, capacity: [jax.ShapeDtypeStruct((capacity,), np.int32)]
)

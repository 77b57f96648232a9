"""The names of brainevent 0.3's scalar matrices, with the very connections that they draw: `walk="renewal"`.

A model moves over by its import, and keeps its matrices entry by entry:

>>> import jitmat.compat as brainevent
>>> W = brainevent.JITCScalarR((1.5, 0.1, 42), shape=(20, 30))
>>> W
JITCScalarR(weight=1.5, prob=0.1, seed=42, shape=(20, 30), corder=False, walk='renewal')

Everything else is jitmat's: operators, exact binary products, derivatives, errors. `docs/brainevent.md` tells what is
in, what is not and what differs. New models are better off with the default walk, whose density is exactly `prob`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax

from ._functions import binary_jitsmm, binary_jitsmv, jits, jits_to_csr, jitsmm, jitsmv
from ._matrix import JITScalarMatrix
from ._op import BenchmarkConfig, XLACustomKernel, general_batching_rule
from ._own_kernels import numba_kernel
from ._products import binary_jitsmm_p, binary_jitsmv_p, jitsmm_p, jitsmv_p
from ._spikes import Spikes

__all__ = [
    "BenchmarkConfig",
    "BinaryArray",
    "JITCScalarC",
    "JITCScalarMatrix",
    "JITCScalarR",
    "XLACustomKernel",
    "binary_jitsmm",
    "binary_jitsmm_p",
    "binary_jitsmv",
    "binary_jitsmv_p",
    "general_batching_rule",
    "jits",
    "jits_to_csr",
    "jitsmm",
    "jitsmm_p",
    "jitsmv",
    "jitsmv_p",
    "numba_kernel",
]


@jax.tree_util.register_pytree_node_class
class JITCScalarR(JITScalarMatrix):
    """A `JITScalarMatrix` of the renewal walk, built as brainevent builds its matrices.

    Parameters
    ----------
    weight : scalar, JAX scalar or Quantity, or the tuple (weight, prob, seed)
    prob : float or JAX scalar
        0, or above 2^-31. The density is 2 / max(2, ceil(2 / prob)) but for the edges of chunks.
    seed : int or JAX integer, optional
        In [-2^31, 2^32).
    shape, corder, backend
        As in `JITScalarMatrix`.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range or of another kind.

    Notes
    -----
    brainevent's `JITCScalarR` and `JITCScalarC` of the same arguments are the same matrix, so both names are this
    class.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat.compat import BinaryArray, JITCScalarC
    >>> W = JITCScalarC((0.5, 0.2, 7), shape=(3, 8), corder=True)
    >>> W @ BinaryArray(jnp.ones(8))
    Array([0. , 0. , 1.5], dtype=float32)
    """

    def __init__(
        self,
        weight: Any,
        prob: Any = None,
        seed: Any = None,
        *,
        shape: tuple[int, int],
        corder: bool = False,
        backend: str | None = None,
    ):
        if isinstance(weight, tuple):
            if len(weight) != 3 or prob is not None or seed is not None:
                raise TypeError(f"the first argument must be a weight or all of (weight, prob, seed), got {weight!r}")
            weight, prob, seed = weight
        super().__init__(weight, prob, seed, shape=shape, corder=corder, walk="renewal", backend=backend)


JITCScalarMatrix = JITCScalarC = JITCScalarR
BinaryArray = Spikes


def _of_renewal(function):
    """The function with `walk="renewal"` as its default."""

    @functools.wraps(function)
    def with_walk(*args, walk="renewal", **kwargs):
        return function(*args, walk=walk, **kwargs)

    signature = inspect.signature(function)
    parameters = [
        parameter.replace(default="renewal") if name == "walk" else parameter
        for name, parameter in signature.parameters.items()
    ]
    with_walk.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    with_walk.__module__ = __name__  # where pickle finds it
    with_walk.__doc__ = f"`jitmat.{function.__name__}` with `walk='renewal'`."
    return with_walk


jitsmv, jitsmm = _of_renewal(jitsmv), _of_renewal(jitsmm)
binary_jitsmv, binary_jitsmm = _of_renewal(binary_jitsmv), _of_renewal(binary_jitsmm)
jits, jits_to_csr = _of_renewal(jits), _of_renewal(jits_to_csr)

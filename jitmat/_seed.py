"""Seeds: any integer in [-2^63, 2^64), taken modulo 2^64, the same with and without x64; some walks take 32 bits."""

from __future__ import annotations

import operator
import secrets
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ._constants import made_once


def is_data(value) -> bool:
    """Whether a seed or prob is data, a JAX array or tracer; Python and NumPy scalars are structure."""
    return isinstance(value, jax.Array)


def random_seed(bits: int) -> int:
    """A seed from the operating system."""
    return secrets.randbits(bits - 1)


def python_seed(seed: Any, bits: int) -> int:
    """A seed of so many bits, given as a Python or NumPy integer, checked."""
    if isinstance(seed, bool | np.bool_):
        raise TypeError(f"seed must be an integer, got the boolean {seed}")
    if isinstance(seed, np.ndarray) and seed.ndim != 0:
        raise ValueError(f"seed must be a scalar, got shape {seed.shape}: {_MANY}")
    try:
        value = operator.index(seed.item() if isinstance(seed, np.ndarray) else seed)
    except TypeError:
        raise TypeError(f"seed must be an integer or a jax.random.key, got {seed!r}") from None
    _check_range(value, bits)
    return value


def _check_range(value: int, bits: int):
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise ValueError(f"seed must lie in [-2^{bits - 1}, 2^{bits}), got {value}")


_MANY = "for several matrices use jax.vmap over the seeds, or JITScalarMatrix.stack"


def array_seed(seed: jax.Array, bits: int) -> jax.Array:
    """The two words (high, low) of a seed given as a JAX integer or as a `jax.random.key`."""
    if bits == 64 and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        words = jax.random.key_data(seed)
        if words.shape != (2,):
            raise ValueError(
                f"a seed key must be one key of two 32-bit words, got key data of shape {words.shape}: {_MANY}"
            )
        return words.astype(jnp.uint32)
    if not jnp.issubdtype(seed.dtype, jnp.integer):
        or_key = " or a jax.random.key" if bits == 64 else f" of {bits} bits"
        raise TypeError(f"seed must be an integer{or_key}, got an array of {seed.dtype}")
    if seed.ndim != 0:
        raise ValueError(f"seed must be a scalar, got shape {seed.shape}: {_MANY}")
    if 8 * seed.dtype.itemsize > bits and not isinstance(seed, Tracer):
        _check_range(int(seed), bits)
    if seed.dtype.itemsize < 8:
        signed = jnp.issubdtype(seed.dtype, jnp.signedinteger)
        low = seed.astype(jnp.int32 if signed else jnp.uint32)
        high = jnp.right_shift(low, low.dtype.type(31)) if signed else jnp.zeros_like(low)
    else:
        low, high = seed, jnp.right_shift(seed, seed.dtype.type(32))
    return jnp.stack([high.astype(jnp.uint32), low.astype(jnp.uint32)])


@made_once
def seed_words(seed: int):
    """The two words (high, low) of a checked Python seed."""
    seed %= 1 << 64
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)

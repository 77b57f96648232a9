"""From a pattern, a weight and an operand to a product: units, dtypes, tables and seeds, then one primitive."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from . import _products as primitives
from . import config
from ._constants import made_once
from ._pattern import Pattern
from ._seed import array_seed, is_data, python_seed, random_seed, seed_words
from ._spikes import unwrap
from ._walk import check_range, device_table, get_walk, traced_table


class Connectivity(NamedTuple):
    """Everything that fixes the entries: the pattern, and `prob` and the seed, each structure or data."""

    pattern: Pattern
    prob: Any  # float, or a JAX scalar
    seed: Any  # int, or the two words of one as a JAX array

    @property
    def T(self) -> Connectivity:
        return self._replace(pattern=self.pattern.T)

    def structure(self):
        """The operands (table, seed words, offset) that every primitive takes first."""
        length = self.pattern.walked_length
        if isinstance(self.prob, Tracer):
            table = traced_table(self.pattern.walk, self.prob, length)
        else:
            table = device_table(self.pattern.walk, float(self.prob), length)
        words = seed_words(self.seed) if isinstance(self.seed, int) else self.seed
        return table, words, self.pattern.offset


def check_prob(prob, walk):
    """A probability that a walk can draw, as a float or the JAX array that was given."""
    if is_data(prob):
        if not jnp.issubdtype(prob.dtype, jnp.floating):
            raise TypeError(f"prob must be a real number, got an array of {prob.dtype}")
        if prob.ndim != 0:
            raise ValueError(f"prob must be a scalar, got shape {prob.shape}: use jax.vmap over several")
        if isinstance(prob, Tracer):
            return prob
        check_range(float(prob), walk)
        return prob
    if isinstance(prob, bool | np.bool_ | str) or np.ndim(prob) != 0 or isinstance(prob, complex | np.complexfloating):
        raise TypeError(f"prob must be a real number in [0, 1], got {prob!r}")
    try:
        value = float(prob)
    except (TypeError, ValueError):
        raise TypeError(f"prob must be a real number in [0, 1], got {prob!r}") from None
    check_range(value, walk)
    return value


def check_seed(seed, walk):
    """A seed of a walk as an int, or as two words when it is data; None draws one."""
    bits = get_walk(walk).seed_bits
    if seed is None:
        return random_seed(bits)
    return array_seed(seed, bits) if is_data(seed) else python_seed(seed, bits)


def check_weight(weight):
    """(weight as a JAX scalar, its unit)"""
    mantissa, unit = split_unit(weight)
    if isinstance(mantissa, jax.Array) and mantissa.shape == () and _is_number(mantissa.dtype):
        return mantissa, unit
    if type(mantissa) in (int, float, complex):
        x64 = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        return _python_scalar(type(mantissa), mantissa, x64), unit  # pyright: ignore[reportArgumentType]
    try:
        with jax.ensure_compile_time_eval():  # a number stays a number under jit, so that it can be stored
            mantissa = jnp.asarray(mantissa)
    except (TypeError, ValueError):
        raise TypeError(f"weight must be a number, got {weight!r}") from None
    if mantissa.dtype == np.bool_:
        raise TypeError("weight must be a number, got a boolean: use 1 for a 0/1 matrix")
    if not _is_number(mantissa.dtype):
        raise TypeError(f"weight must be a number, got {mantissa.dtype}")
    if mantissa.size != 1:
        raise ValueError(
            f"weight must be a scalar, since all nonzeros of a scalar matrix are equal; got shape {mantissa.shape}"
        )
    return mantissa.reshape(()), unit


@made_once
def _python_scalar(kind, value, x64):
    """A Python number as a JAX scalar."""
    return value


def split_unit(x):
    """(mantissa, unit) of a number, an array or a Quantity."""
    if isinstance(x, u.Quantity):
        return x.mantissa, x.unit
    return x, u.UNITLESS


def join_unit(mantissa, unit):
    """A Quantity, or the bare array when the unit is no unit."""
    if unit is u.UNITLESS:
        return mantissa
    return u.maybe_decimal(u.Quantity(mantissa, unit=unit))


def product(connectivity: Connectivity, weight, x, *, binary=False, backend=None):
    """W @ x for a vector or a matrix x; `binary` takes any x as events, booleans are events always."""
    value, wrapped = unwrap(x)
    binary = binary or wrapped
    value, x_unit = split_unit(value)
    value, inner = unwrap(value)  # events inside a Quantity
    binary = binary or inner
    value = as_operand(value)
    binary = binary or value.dtype == np.bool_
    shape = connectivity.pattern.shape
    if value.ndim not in (1, 2) or value.shape[0] != shape[1]:
        raise ValueError(f"shapes do not match: {shape} @ {value.shape}")
    weight, w_unit = check_weight(weight)
    if binary and value.dtype.kind == "c":
        raise TypeError(f"events must be booleans, integers or reals, got {value.dtype}")
    if binary and shape[1] >= 1 << 32:
        raise ValueError(f"{shape[1]} events may be more than 32 bits count: multiply views of the matrix")
    y = multiply(
        weight,
        *connectivity.structure(),
        value,
        block=connectivity.pattern.block,
        gather=connectivity.pattern.corder,
        binary=binary,
        deterministic=config.deterministic,
        backend=backend,
    )
    return join_unit(y, w_unit if x_unit is u.UNITLESS else w_unit * x_unit)


def as_operand(value):
    """The operand as a JAX array."""
    given = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    try:
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"cannot multiply a JITScalarMatrix by {given}") from None
    if not (_is_number(array.dtype) or array.dtype == np.bool_):
        raise TypeError(f"operand must be numbers or booleans, got {array.dtype}")
    return array


@functools.cache
def _is_number(dtype) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.number))


def accumulator(dtype) -> np.dtype:
    """The dtype in which kernels sum for a result of this dtype: halves and short integers are widened."""
    dtype = np.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.float64 if dtype == np.complex128 else np.float32)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64 if dtype == np.float64 else np.float32)
    return np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)


@functools.partial(jax.jit, static_argnames=("block", "gather", "binary", "deterministic", "backend"))
def multiply(weight, table, seed, offset, x, *, block, gather, binary, deterministic, backend):
    """weight * (P @ x), in the dtype that the two promote to."""
    result = jnp.result_type(weight, x)
    compute = accumulator(result)
    params = {
        "block": block,
        "gather": gather,
        "dtype": compute,
        "deterministic": deterministic,
        "backend": backend,
    }
    mv, mm = primitives.jitsmv_p, primitives.jitsmm_p
    if binary:
        mv, mm = primitives.binary_jitsmv_p, primitives.binary_jitsmm_p
    elif jnp.issubdtype(x.dtype, jnp.complexfloating):
        columns = (x[:, None] if x.ndim == 1 else x).astype(result)
        (y,) = mm(table, seed, offset, jnp.concatenate([columns.real, columns.imag], axis=1), **params)
        half = columns.shape[1]
        y = jax.lax.complex(y[:, :half], y[:, half:]).reshape(-1, *x.shape[1:])
        return (weight * y).astype(result)
    else:
        x = x.astype(compute)
    (y,) = (mv if x.ndim == 1 else mm)(table, seed, offset, x, **params)
    return _scale(weight, y, result)


def _scale(weight, y, dtype):
    """weight * y, for y in the dtype that sums for `dtype` have."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return jax.lax.complex(weight.real.astype(y.dtype) * y, weight.imag.astype(y.dtype) * y)
    return (weight.astype(y.dtype) * y).astype(dtype)


def degrees(connectivity: Connectivity, axis: int, backend=None) -> jax.Array:
    """int32 number of nonzeros of each column (axis 0) or row (axis 1)."""
    if (length := connectivity.pattern.shape[axis]) >= 1 << 31:
        raise ValueError(f"an axis of {length} may hold more nonzeros than int32 counts: count views of it")
    if connectivity.pattern.corder == (axis == 1):
        return stream_counts(connectivity, backend).astype(jnp.int32)
    across = connectivity if axis == 1 else connectivity.T
    return product(across, np.int32(1), jnp.ones(across.pattern.shape[1], bool), backend=backend)


def scaled_counts(weight, counts):
    """weight * counts, rounded as a product with events is; whole numbers in the dtype of JAX's sums."""
    dtype = jnp.zeros(0, weight.dtype).sum().dtype
    return _scale(weight, jnp.asarray(counts, accumulator(dtype)), dtype)


def dense(connectivity: Connectivity, weight, backend=None):
    """The matrix as an array (or Quantity): weight at the nonzeros, 0 elsewhere."""
    weight, unit = check_weight(weight)
    pattern = connectivity.pattern
    table, seed, offset = connectivity.structure()
    nothing = jnp.zeros((1,), jnp.int32)
    (ones,) = primitives.jits_dense_p(table, seed, offset, nothing, block=pattern.block, backend=backend)
    ones = ones if pattern.corder else ones.T
    return join_unit(jnp.where(ones != 0, weight, jnp.zeros((), weight.dtype)), unit)


def stream_counts(connectivity: Connectivity, backend=None) -> jax.Array:
    """Nonzeros of each stream."""
    table, seed, offset = connectivity.structure()
    nothing = jnp.zeros((1,), jnp.int32)
    return primitives.jits_count_p(table, seed, offset, nothing, block=connectivity.pattern.block, backend=backend)[0]

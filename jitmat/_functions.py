"""Products and materialization as functions of (weight, prob, seed); names and arguments as in brainevent."""

from __future__ import annotations

import functools

import jax
import numpy as np

from ._compute import Connectivity, check_prob, check_seed, check_weight, dense, join_unit, product
from ._materialize import csr_parts
from ._pattern import check_flag, make_pattern


def _connectivity(prob, seed, shape, transpose, corder, walk) -> Connectivity:
    """Of the matrix that multiplies: `shape` is that of the untransposed one, `corder` speaks of the output."""
    transpose = check_flag("transpose", transpose)
    corder = check_flag("corder", corder) is not transpose  # of the untransposed matrix
    plain = isinstance(shape, tuple) and all(type(size) is int for size in shape)
    pattern = (_pattern if plain else make_pattern)(shape, corder, walk)
    return Connectivity(pattern.T if transpose else pattern, check_prob(prob, walk), check_seed(seed, walk))


_pattern = functools.lru_cache(maxsize=1024)(make_pattern)


def _check_dimensions(operand, ndim, name):
    value = getattr(operand, "value", operand)
    shape = getattr(value, "shape", None)
    shape = np.shape(value) if shape is None else tuple(shape)
    if len(shape) != ndim:
        raise ValueError(f"{name} takes {ndim} dimension{'s' * (ndim > 1)}, got shape {shape}")


def _multiply(name, ndim, binary, weight, prob, operand, seed, shape, transpose, corder, walk, backend):
    connectivity = _connectivity(prob, seed, shape, transpose, corder, walk)
    _check_dimensions(operand, ndim, name)
    with jax.named_scope(name):
        return product(connectivity, weight, operand, binary=binary, backend=backend)


def jitsmv(weight, prob, vector, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None):
    """y = M @ vector, or M.T @ vector, for a sparse random matrix M that is regenerated, never stored.

    M has the given `shape`; its entries are `weight` with probability `prob`, independently, and 0 otherwise.

    Parameters
    ----------
    weight : scalar, JAX scalar or Quantity
        The value of every nonzero.
    prob : float or JAX scalar
        The probability of a nonzero, in [0, 1]. A Python or NumPy number is a float64 whatever JAX's precision.
    vector : array of shape (k,)
        Numbers, or booleans, which are events; may carry a unit. k is n, or m when transposed.
    seed : int, JAX integer or jax.random.key, optional
        In [-2^63, 2^64), modulo 2^64. None draws one, once per trace.
    shape : (int, int)
        (m, n), the shape of M, also when it is transposed.
    transpose : bool
        Multiply by M.T.
    corder : bool
        True draws a stream per *output* element (the product gathers), False one per input element (it scatters:
        binary products then cost time in proportion to the active elements). The two draw different matrices; the
        same matrix has `transpose=not transpose, corder=not corder`. The default here is True as in brainevent's
        functions, that of `JITScalarMatrix` is False as in brainevent's classes:
        `JITScalarMatrix(w, p, s, shape=(m, n)) @ x` is `jitsmv(w, p, x, s, shape=(m, n), corder=False)`.
    walk : str
        How the entries are drawn, "bernoulli" or "renewal", as in `JITScalarMatrix`.
    backend : str, optional
        "numba", "jax" or "cuda_raw"; None takes the platform's default.

    Returns
    -------
    array or Quantity of shape (r,)
        In the dtype that weight and vector promote to. r is m, or n when transposed.

    Raises
    ------
    ValueError, TypeError
        When shapes do not match, or an argument is out of its range or of another kind.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import jitsmv
    >>> jitsmv(2.0, 1.0, jnp.ones(3), 0, shape=(2, 3))
    Array([6., 6.], dtype=float32)
    """
    return _multiply("jitsmv", 1, False, weight, prob, vector, seed, shape, transpose, corder, walk, backend)


def jitsmm(weight, prob, B, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None):
    """Y = M @ B, or M.T @ B, for a matrix B of shape (k, columns); all else as in `jitsmv`.

    Every nonzero of M is drawn once for all columns.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import jitsmm
    >>> jitsmm(2.0, 1.0, jnp.ones((3, 2)), 0, shape=(2, 3))
    Array([[6., 6.],
           [6., 6.]], dtype=float32)
    """
    return _multiply("jitsmm", 2, False, weight, prob, B, seed, shape, transpose, corder, walk, backend)


def binary_jitsmv(
    weight, prob, vector, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None
):
    """y = weight * (active elements of `vector` that M, or M.T, connects to each output); all else as in `jitsmv`.

    Floats are active above 0, booleans and integers where they are not 0. The count is exact, and so is the result
    up to its one multiplication. The derivative in `vector` is that of `jitsmv`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import binary_jitsmv
    >>> binary_jitsmv(2.0, 1.0, jnp.array([0.5, -1.0, 7.0]), 0, shape=(2, 3))
    Array([4., 4.], dtype=float32)
    """
    return _multiply("binary_jitsmv", 1, True, weight, prob, vector, seed, shape, transpose, corder, walk, backend)


def binary_jitsmm(weight, prob, B, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None):
    """Y = weight * (active elements of each column of B that M, or M.T, connects to each output).

    B has the shape (k, columns); activity is as in `binary_jitsmv`, all else as in `jitsmv`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import binary_jitsmm
    >>> binary_jitsmm(2.0, 1.0, jnp.eye(3, dtype=bool), 0, shape=(2, 3))
    Array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float32)
    """
    return _multiply("binary_jitsmm", 2, True, weight, prob, B, seed, shape, transpose, corder, walk, backend)


def jits(weight, prob, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None):
    """The dense matrix M, or M.T, that `jitsmv` multiplies by under the same arguments.

    Parameters
    ----------
    weight, prob, seed, shape, transpose, corder, walk, backend
        As in `jitsmv`.

    Returns
    -------
    array or Quantity of shape (m, n), or (n, m) when transposed

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range or of another kind.

    Examples
    --------
    >>> from jitmat import jits
    >>> jits(2.0, 0.5, 1, shape=(2, 6))
    Array([[2., 0., 0., 2., 0., 0.],
           [2., 2., 0., 2., 0., 2.]], dtype=float32)
    """
    return dense(_connectivity(prob, seed, shape, transpose, corder, walk), weight, backend)


def jits_to_csr(weight, prob, seed=None, *, shape, transpose=False, corder=True, walk="bernoulli", backend=None):
    """(data, indices, indptr) of the CSR form of M, or M.T, that `jitsmv` multiplies by under the same arguments.

    Parameters
    ----------
    weight, prob, seed, shape, transpose, corder, walk, backend
        As in `jitsmv`; `prob` and `seed` must be concrete, since the number of nonzeros follows from them.

    Returns
    -------
    data : array or Quantity of shape (nnz,)
        `weight` throughout, differentiable in it.
    indices, indptr : integer arrays of shapes (nnz,) and (rows + 1,)
        Column indices are sorted within each row.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range or of another kind, or `prob` or `seed` is traced.

    Examples
    --------
    >>> from jitmat import jits_to_csr
    >>> data, indices, indptr = jits_to_csr(2.0, 1.0, 0, shape=(2, 3))
    >>> indices
    Array([0, 1, 2, 0, 1, 2], dtype=int32)
    """
    weight, unit = check_weight(weight)
    connectivity = _connectivity(prob, seed, shape, transpose, corder, walk)
    data, indices, indptr = csr_parts(connectivity, weight, backend)
    return join_unit(data, unit), indices, indptr

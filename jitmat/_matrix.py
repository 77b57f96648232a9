"""The matrix: a pytree that acts like a sparse matrix and stores a weight, a probability and a seed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from brainunit.sparse import SparseMatrix
from jax.core import Tracer
from jax.experimental.sparse import BCOO, BCSR

from ._compute import (
    Connectivity,
    as_operand,
    check_prob,
    check_seed,
    check_weight,
    degrees,
    dense,
    join_unit,
    product,
    scaled_counts,
    split_unit,
)
from ._index import diagonal, pick, split_key, view
from ._materialize import concrete, count_nonzeros, csr_parts, to_scipy
from ._pattern import check_flag, make_pattern
from ._seed import is_data, seed_words
from ._spikes import unwrap


@jax.tree_util.register_pytree_node_class
class JITScalarMatrix(SparseMatrix):
    """A sparse random matrix whose nonzeros all equal `weight`, regenerated from its seed inside every product.

    W[i, j] = weight with probability `prob`, independently for every entry, and 0 otherwise. Nothing but the
    arguments is stored; a product takes O(m + n) memory whatever the number of nonzeros, and every view of the
    matrix (either side of `@`, `.T`, `todense`, `tocsr`, any device) has the same entries.

    Parameters
    ----------
    weight : scalar, JAX scalar or Quantity
        The value of every nonzero. Always a leaf of the pytree.
    prob : float or JAX scalar
        The probability of a nonzero, in [0, 1]. A Python or NumPy number is structure, and a float64 whatever
        JAX's precision; a JAX array is data, a leaf, and what its dtype says. Below 2^-33 / 16384 the matrix may
        be empty. For one seed the nonzeros at a lower `prob` are among those at a higher one.
    seed : int, JAX integer or jax.random.key, optional
        In [-2^63, 2^64), modulo 2^64. A Python or NumPy integer is structure: a function jitted over W is traced
        anew for each. A JAX array is data, a leaf: `jax.vmap` over it makes an ensemble, and JAX then refuses
        `jax.grad` over W itself; differentiate `lambda w: f(W.with_data(w))`. None draws a seed from the
        operating system.
    shape : (int, int)
        Up to 2^32 streams of 2^40 positions.
    diagonal : bool
        False leaves out the entries (i, i) of a square matrix, its self-connections, and changes no other entry.
    corder : bool
        Which axis the streams of random numbers run along, part of what the matrix is. False, a stream per
        column: `W @ events` visits only the active columns and `events @ W` gathers; True, a stream per row: the
        other way round. Choose False when the events are mostly on the right of `W @ events`, True when they
        are mostly on the left of `events @ W`. (The functions, such as `jitsmv`, default to True.)
    walk : str
        How entries are drawn. "bernoulli": every entry by itself, with probability exactly `prob`. "renewal": the
        connections of brainevent 0.3, bit for bit; gaps between them are uniform, so that degrees vary less than
        independent entries', and the density is 2 / max(2, ceil(2 / prob)): 0.286 at prob=0.3, 0.667 from 0.7 to
        0.99. It takes seeds in [-2^31, 2^32), of a traced 64-bit integer the low half, a `prob` that is 0 or above
        2^-31, and a walked axis up to 2^32.
    backend : str, optional
        "numba", "jax" or "cuda_raw"; None takes the platform's default. All give the same matrix.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range or of another kind.

    Notes
    -----
    A product with booleans, or with anything wrapped in `Spikes`, takes its operand as events and is exact:
    weight times an integer count. Results have the dtype that weight and operand promote to; halves are summed
    in float32. Seeds are hashed by SplitMix64's finalizer (Steele, Lea and Flood 2014, OOPSLA), counts drawn by
    inversion, positions by a keyed permutation; `docs/walk.md` gives every bit.

    `W[a:b, c:d]` is a view, again a matrix of this kind and equal to that block; `W[i]`, `W[:, j]` and `W[i, j]` are
    dense arrays of one line or one entry, and lists of indices, `W[rows]`, `W[:, columns]` and `W[rows, columns]`,
    give as many. Each costs the walk of what it returns, an index across the streams one look-up in each. Traced
    indices are held within the shape, as JAX does; others out of range raise IndexError.

    `scipy.sparse.linalg` (eigs, svds, lsqr, gmres, aslinearoperator) takes W as it is, and
    `jax.scipy.sparse.linalg` takes `W.__matmul__`; lineax takes
    `lineax.FunctionLinearOperator(W.__matmul__, jax.ShapeDtypeStruct((n,), jnp.float32))`. The solutions of the latter
    two are differentiable in the weight and in the right-hand side.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import JITScalarMatrix
    >>> W = JITScalarMatrix(0.5, 0.1, seed=42, shape=(1000, 2000))
    >>> W
    JITScalarMatrix(weight=0.5, prob=0.1, seed=42, shape=(1000, 2000), corder=False)
    >>> y = W @ jnp.ones(2000)
    >>> bool((y == W.tocsr() @ jnp.ones(2000)).all())
    True
    >>> W[10:20, :500]
    JITScalarMatrix(weight=0.5, prob=0.1, seed=42, shape=(1000, 2000), corder=False)[10:20, 0:500]
    >>> W[3].shape, W[:, 5].shape, W[[1, 2, 3]].shape, float(W[3, 5])
    ((2000,), (1000,), (3, 2000), 0.5)

    A linear system, x - W x / 100 = b, and its solution's derivative in the weight:

    >>> import jax
    >>> from jax.scipy.sparse.linalg import gmres
    >>> A, b = W[:, :1000], jnp.ones(1000)
    >>> solve = lambda A: gmres(lambda x: x - A @ x / 100, b)[0]
    >>> x = solve(A)
    >>> bool(jnp.allclose(x - A @ x / 100, b, atol=1e-3))
    True
    >>> jax.grad(lambda A: solve(A).sum())(A).shape
    (1000, 1000)
    """

    def __init__(
        self,
        weight: Any,
        prob: Any,
        seed: Any = None,
        *,
        shape: tuple[int, int],
        diagonal: bool = True,
        corder: bool = False,
        walk: str = "bernoulli",
        backend: str | None = None,
    ):
        self.weight = join_unit(*check_weight(weight))
        if backend is not None and backend not in ("numba", "jax", "cuda_raw"):
            raise ValueError(f"backend must be 'numba', 'jax' or 'cuda_raw', got {backend!r}")
        self._connectivity = Connectivity(
            make_pattern(shape, corder, walk, diagonal), check_prob(prob, walk), check_seed(seed, walk)
        )
        self.backend = backend

    # -- pytree --------------------------------------------------------------------------------------

    def tree_flatten(self):
        pattern, prob, seed = self._connectivity
        as_data = [x if is_data(x) else None for x in (prob, seed)]
        as_structure = tuple(None if is_data(x) else x for x in (prob, seed))
        return (self.weight, *as_data), (pattern, *as_structure, self.backend)

    @classmethod
    def tree_unflatten(cls, aux_data, children):
        weight, *as_data = children
        pattern, *as_structure, backend = aux_data
        prob, seed = (s if s is not None else d for s, d in zip(as_structure, as_data, strict=True))
        return cls._make(weight, Connectivity(pattern, prob, seed), backend)

    @classmethod
    def _make(cls, weight, connectivity, backend):
        """A matrix from parts that need no check."""
        matrix = object.__new__(cls)
        matrix.weight, matrix._connectivity, matrix.backend = weight, connectivity, backend
        return matrix

    @classmethod
    def stack(cls, matrices: Iterable[JITScalarMatrix]) -> JITScalarMatrix:
        """One pytree of several matrices, to be mapped over: `jax.vmap(lambda W: W @ x)(JITScalarMatrix.stack(Ws))`.

        The matrices must agree in all but weight and seed (and `prob` where it is a JAX array); the seeds become
        data. The result is no matrix until a `vmap` takes it apart.

        Examples
        --------
        >>> import jax, jax.numpy as jnp
        >>> from jitmat import JITScalarMatrix
        >>> Ws = [JITScalarMatrix(1.0, 0.5, seed, shape=(4, 3)) for seed in range(5)]
        >>> jax.vmap(lambda W: W @ jnp.ones(3))(JITScalarMatrix.stack(Ws)).shape
        (5, 4)
        """
        matrices = list(matrices)
        for W in matrices:
            if not isinstance(W, JITScalarMatrix):
                raise TypeError(f"stack takes JITScalarMatrix only, got {type(W).__name__}")
        matrices = [
            cls._make(
                W.weight,
                W._connectivity._replace(seed=seed_words(W.seed) if isinstance(W.seed, int) else W.seed),
                W.backend,
            )
            for W in matrices
        ]
        if not matrices:
            raise ValueError("stack needs at least one matrix")
        leaves, structures = zip(*(jax.tree.flatten(W) for W in matrices), strict=True)
        for structure in structures[1:]:
            if structure != structures[0]:
                raise ValueError(
                    f"matrices of a stack must agree in all but weight and seed; {matrices[0]} and another differ"
                )
        return jax.tree.unflatten(structures[0], [jnp.stack(parts) for parts in zip(*leaves, strict=True)])

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._connectivity.pattern.shape

    @property
    def prob(self) -> Any:
        """The probability of a nonzero."""
        return self._connectivity.prob

    @property
    def seed(self) -> Any:
        """The seed: an int, or the two 32-bit words (high, low) when it is data."""
        return self._connectivity.seed

    @property
    def corder(self) -> bool:
        """True: a stream per row; False: a stream per column."""
        return self._connectivity.pattern.corder

    @property
    def walk(self) -> str:
        """How entries are drawn."""
        return self._connectivity.pattern.walk

    @property
    def data(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The value of every nonzero."""
        return self.weight

    @property
    def dtype(self) -> np.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.dtype(split_unit(self.weight)[0].dtype)

    @property
    def unit(self) -> u.Unit:
        """The unit of the weight."""
        return split_unit(self.weight)[1]

    @property
    def nnz(self) -> int:
        """The number of nonzeros, counted without storing them."""
        return count_nonzeros(self._connectivity, self.backend)

    nse = nnz  # pyright: ignore[reportIncompatibleMethodOverride]

    def degrees(self, axis: int) -> jax.Array:
        """The number of nonzeros of each column (axis 0: as NumPy's sums, *over* the rows) or of each row (axis 1).

        Exact, int32; with `W[i, j]` the connection from j to i, axis 0 gives out-degrees and axis 1 in-degrees.
        Along the streams, rows with corder=True, whole blocks are counted without drawing them; across them every
        nonzero is drawn.

        Examples
        --------
        >>> from jitmat import JITScalarMatrix
        >>> W = JITScalarMatrix(0.5, 0.5, seed=1, shape=(2, 6), corder=True)
        >>> W.todense()
        Array([[0.5, 0. , 0. , 0.5, 0. , 0. ],
               [0.5, 0.5, 0. , 0.5, 0. , 0.5]], dtype=float32)
        >>> W.degrees(axis=0), W.degrees(axis=1)
        (Array([2, 1, 0, 2, 0, 1], dtype=int32), Array([2, 4], dtype=int32))
        """
        return degrees(self._connectivity, check_axis(axis, "0 or 1"), self.backend)

    def sum(self, axis: Any = None) -> Any:
        """The sum of all entries, or of each column (axis 0) or row (axis 1): the weight times a count."""
        mantissa, unit = split_unit(self.weight)
        return join_unit(scaled_counts(mantissa, self._counts(axis)), unit)

    def mean(self, axis: int | None = None) -> Any:
        """The mean of all entries, or of each column (axis 0) or row (axis 1); nan where there are no entries."""
        mantissa, unit = split_unit(self.weight)
        counts = jnp.asarray(self._counts(axis), jnp.result_type(float))
        entries = float(self.size if axis is None else self.shape[axis])
        return join_unit((mantissa * (counts / entries)).astype(jnp.result_type(mantissa, 1.0)), unit)

    def _counts(self, axis):
        """Nonzeros in all, a number where that is known, or of each column (axis 0) or row (axis 1)."""
        if axis is not None:
            return degrees(self._connectivity, check_axis(axis, "0, 1 or None"), self.backend)
        if any(isinstance(x, Tracer) for x in self._connectivity):
            return jnp.sum(self._counts(int(self.corder)))
        count = self.nnz
        if count < 1 << 31 or jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
            return count
        if jnp.issubdtype(self.dtype, jnp.integer):
            raise ValueError(f"the sum of {count} whole numbers needs more than 32 bits: enable jax_enable_x64")
        return float(count)

    def __repr__(self):
        pattern = self._connectivity.pattern
        seed = self.seed if isinstance(self.seed, int) else "data"
        parts = [f"weight={self.weight}", f"prob={self.prob}", f"seed={seed}", f"shape={pattern.whole}"]
        if not pattern.diagonal:
            parts.append("diagonal=False")
        parts.append(f"corder={pattern.corder}")
        if pattern.walk != "bernoulli":
            parts.append(f"walk={pattern.walk!r}")
        if self.backend is not None:
            parts.append(f"backend={self.backend!r}")
        window = ""
        if pattern.shape != pattern.whole:
            bounds = (f"{first}:{first + size}" for first, size in zip(pattern.origin, pattern.shape))
            window = f"[{', '.join(bounds)}]"
        return f"{type(self).__name__}({', '.join(parts)}){window}"

    def __hash__(self):
        if any(is_data(x) for x in self._connectivity):
            raise TypeError("a JITScalarMatrix with an array seed or prob has no hash: its structure is data")
        return hash((*self._connectivity, self.backend))

    def __len__(self):
        raise TypeError(f"len() of a sparse matrix is ambiguous: use W.shape[0], here {self.shape[0]}, or W.nnz")

    def __bool__(self):
        raise TypeError(f"a matrix of shape {self.shape} is neither true nor false: use W.nnz > 0")

    def __iter__(self):
        raise TypeError("nothing walks the rows of a sparse matrix by stealth: use W[i] for one, or W.tocsr()")

    # -- parts ---------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        rows, columns = split_key(key, self.shape)
        block = view(self._connectivity, rows, columns)
        if isinstance(rows, range) and isinstance(columns, range):
            return self._make(self.weight, block, self.backend)
        mantissa, unit = split_unit(self.weight)
        return join_unit(pick(block, mantissa, rows, columns, self.backend), unit)

    def row(self, i: Any) -> Any:
        """W[i]: the dense row of number i, of shape (n,); a row for each number of an array."""
        return self[_number(i, "row"), :]

    def col(self, j: Any) -> Any:
        """W[:, j]: the dense column of number j, of shape (m,); a column for each number of an array."""
        return self[:, _number(j, "col")]

    def diagonal(self, k: int = 0) -> Any:
        """The dense diagonal of entries (i, i + k), for which one block of each stream is drawn."""
        if isinstance(k, bool | np.bool_) or not isinstance(k, numbers.Integral):
            raise TypeError(f"diagonal takes the number of a diagonal, an integer, got {k!r}")
        rows, columns = range(max(-k, 0), self.shape[0]), range(max(k, 0), self.shape[1])
        mantissa, unit = split_unit(self.weight)
        return join_unit(diagonal(view(self._connectivity, rows, columns), mantissa, self.backend), unit)

    def trace(self) -> Any:
        """The sum of the diagonal."""
        return self.diagonal().sum()

    # -- products ------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JITScalarMatrix):
            raise NotImplementedError(
                "the product of two JITScalarMatrix is no scalar matrix: multiply vectors in turn, W1 @ (W2 @ x)"
            )
        if scipy.sparse.issparse(other):
            _check_inner(self.shape, other.shape)
            return _columnwise(self, other.tocsc())
        return product(self._connectivity, self.weight, other, backend=self.backend)

    def __rmatmul__(self, other: Any) -> Any:
        if scipy.sparse.issparse(other):
            _check_inner(other.shape, self.shape)
            return _columnwise(self.T, other.T.tocsc()).T
        value, binary = unwrap(other)
        value = value if isinstance(value, u.Quantity | jax.Array | np.ndarray) else as_operand(value)
        if value.ndim not in (1, 2) or value.shape[-1] != self.shape[0]:
            raise ValueError(f"shapes do not match: {value.shape} @ {self.shape}")
        y = product(self._connectivity.T, self.weight, value.T, binary=binary, backend=self.backend)
        return y.T

    def matvec(self, x: Any) -> Any:
        """W @ x for x of shape (n,) or (n, 1); NumPy in, fresh NumPy out, as scipy's LinearOperator asks."""
        return _as_operator(self, x)

    def rmatvec(self, x: Any) -> Any:
        """W.H @ x for x of shape (m,) or (m, 1)."""
        return _as_operator(self.H, x)

    def matmat(self, X: Any) -> Any:
        """W @ X for X of shape (n, k)."""
        return _as_operator(self, X)

    def rmatmat(self, X: Any) -> Any:
        """W.H @ X for X of shape (m, k)."""
        return _as_operator(self.H, X)

    # -- other matrices of the same pattern ----------------------------------------------------------

    def with_data(self, data: Any) -> JITScalarMatrix:
        """The same connectivity with another weight."""
        return self._make(join_unit(*check_weight(data)), self._connectivity, self.backend)

    def with_spectral_radius(self, rho: Any) -> JITScalarMatrix:
        """The matrix times rho / spectral_radius(W): scaled so that its spectral radius is `rho`, as a reservoir's.

        `rho` is a real number of at least 0, a Quantity where the weight shall have a unit. A matrix whose spectral
        radius is 0 raises ValueError; accuracy is that of `spectral_radius`.

        Examples
        --------
        >>> from jitmat import JITScalarMatrix
        >>> W = JITScalarMatrix(-1.0, 1.0, seed=0, shape=(100, 100))  # its spectral radius is 100
        >>> print(f"{W.with_spectral_radius(0.5).data:.4f}")
        -0.0050
        """
        from ._spectral import spectral_radius

        value, current = split_unit(rho)[0], spectral_radius(self)
        if np.ndim(value) != 0 or not (isinstance(value, Tracer) or np.asarray(value).dtype.kind in "iuf"):
            raise TypeError(f"a spectral radius is a real number, got {rho!r}")
        if not isinstance(value, Tracer) and not 0 <= value < np.inf:
            raise ValueError(f"a spectral radius is finite and at least 0, got {rho!r}")
        if not isinstance(split_unit(current)[0], Tracer) and split_unit(current)[0] == 0:
            raise ValueError("the spectral radius is 0, of no cycle or no weight: no scale gives another")
        scaled, dtype = self * (rho / current), self.dtype
        return scaled.astype(dtype) if jnp.issubdtype(dtype, jnp.inexact) else scaled

    def transpose(self, axes: Any = None) -> JITScalarMatrix:
        """The transposed matrix, at no cost."""
        if axes not in (None, (1, 0), [1, 0]):
            raise ValueError(f"a matrix is transposed by axes (1, 0), got {axes!r}")
        return self._make(self.weight, self._connectivity.T, self.backend)

    @property
    def T(self) -> JITScalarMatrix:
        """The transposed matrix, at no cost."""
        return self.transpose()

    @property
    def H(self) -> JITScalarMatrix:
        """The conjugate transpose."""
        return self.conj().transpose()

    def conj(self) -> JITScalarMatrix:
        """The matrix with its weight conjugated."""
        mantissa, unit = split_unit(self.weight)
        return self.with_data(join_unit(mantissa.conj(), unit))

    conjugate = conj

    def astype(self, dtype: Any) -> JITScalarMatrix:
        """The matrix with its weight in another dtype."""
        mantissa, unit = split_unit(self.weight)
        return self.with_data(join_unit(mantissa.astype(dtype), unit))

    def copy(self) -> JITScalarMatrix:
        """The same matrix."""
        return self._make(self.weight, self._connectivity, self.backend)

    def __neg__(self) -> JITScalarMatrix:
        return self.with_data(-self.weight)

    def __pos__(self) -> JITScalarMatrix:
        return self

    def __abs__(self) -> JITScalarMatrix:
        return self.with_data(abs(self.weight))

    def __mul__(self, other: Any) -> JITScalarMatrix:
        return self.with_data(self.weight * self._scalar(other, "*"))

    def __rmul__(self, other: Any) -> JITScalarMatrix:
        return self * other

    def __truediv__(self, other: Any) -> JITScalarMatrix:
        return self.with_data(self.weight / self._scalar(other, "/"))

    def __rtruediv__(self, other):
        raise NotImplementedError("dividing by a sparse matrix would divide by its zeros")

    def __add__(self, other: Any) -> JITScalarMatrix:
        if isinstance(other, numbers.Number) and other == 0:
            return self  # so that sum() works
        return self.with_data(self.weight + self._same_structure(other, "+"))

    def __radd__(self, other: Any) -> JITScalarMatrix:
        return self + other

    def __sub__(self, other: Any) -> JITScalarMatrix:
        return self.with_data(self.weight - self._same_structure(other, "-"))

    def __rsub__(self, other: Any) -> JITScalarMatrix:
        return self.with_data(self._same_structure(other, "-") - self.weight)

    def _refuse(self, other):
        raise NotImplementedError(
            "this would not be a matrix whose nonzeros are all equal: use W.tocsr() or W.todense() and compute there"
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _refuse

    def _scalar(self, other, op):
        value = split_unit(other)[0]
        if isinstance(other, JITScalarMatrix) or scipy.sparse.issparse(other) or np.ndim(value) != 0:
            raise NotImplementedError(
                f"W {op} {_describe(other)} would not be a matrix whose nonzeros are all equal: only scalars"
                " scale it; use W @ x for a product"
            )
        return other

    def _same_structure(self, other, op):
        """The weight of a matrix with the very same nonzeros."""
        if not isinstance(other, JITScalarMatrix):
            raise NotImplementedError(
                f"W {op} {_describe(other)} would not be a matrix whose nonzeros are all equal: to change the weight"
                " use W.with_data(...), else compute with W.tocsr() or W.todense()"
            )
        if not _equal_connectivity(self._connectivity, other._connectivity):
            raise NotImplementedError(
                f"W1 {op} W2 needs the same prob, seed, shape, diagonal, corder and block, so that the nonzeros"
                f" are the same: {self} and {other} differ; add their products, W1 @ x {op} W2 @ x"
            )
        return other.weight

    # -- stored forms --------------------------------------------------------------------------------

    def todense(self) -> Any:
        """The whole matrix as a JAX array, or Quantity: O(m n) memory, the only method that takes it."""
        return dense(self._connectivity, self.weight, self.backend)

    toarray = todense

    def tocsr(self, unit: Any = None, *, progress: bool = False) -> scipy.sparse.csr_array:
        """The matrix as a `scipy.sparse.csr_array` with sorted indices.

        A weight with a unit needs `unit=`, in which the numbers then are; halves are stored as float32, scipy's
        smallest. `progress` shows a bar (with tqdm) while
        the nonzeros are drawn.
        """
        return self._stored(unit, progress).tocsr()

    def tocsc(self, unit: Any = None, *, progress: bool = False) -> scipy.sparse.csc_array:
        """The matrix as a `scipy.sparse.csc_array` with sorted indices; arguments as in `tocsr`."""
        return self._stored(unit, progress).tocsc()

    def tocoo(self, unit: Any = None, *, progress: bool = False) -> scipy.sparse.coo_array:
        """The matrix as a `scipy.sparse.coo_array`, row by row; arguments as in `tocsr`."""
        return self.tocsr(unit, progress=progress).tocoo()

    def to_bcsr(self, unit: Any = None) -> BCSR:
        """The matrix as a `jax.experimental.sparse.BCSR`, differentiable in the weight; `unit` as in `tocsr`."""
        parts = csr_parts(self._connectivity, self._plain_weight(unit, "to_bcsr"), self.backend)
        return BCSR(parts, shape=self.shape, indices_sorted=True, unique_indices=True)

    def to_bcoo(self, unit: Any = None) -> BCOO:
        """The matrix as a `jax.experimental.sparse.BCOO`, row by row; all else as in `to_bcsr`."""
        mantissa = self._plain_weight(unit, "to_bcoo")
        data, columns, indptr = csr_parts(self._connectivity, mantissa, self.backend)
        rows = jnp.repeat(
            jnp.arange(self.shape[0], dtype=columns.dtype), jnp.diff(indptr), total_repeat_length=data.size
        )
        indices = jnp.stack([rows, columns], axis=1)
        return BCOO((data, indices), shape=self.shape, indices_sorted=True, unique_indices=True)

    def _plain_weight(self, unit, method):
        """The weight as a number in `unit`."""
        mantissa, own = split_unit(self.weight)
        if unit is not None:
            return u.Quantity(mantissa, unit=own).to_decimal(unit)
        if own != u.UNITLESS:
            raise ValueError(
                f"the entries stored would be plain numbers and the weight is in {own}: say {method}(unit=...)"
            )
        return mantissa

    def _stored(self, unit, progress):
        concrete(self._connectivity, "a stored matrix")
        mantissa = self._plain_weight(unit, "tocsr")
        if isinstance(mantissa, Tracer):
            raise TypeError("scipy stores numbers and the weight is traced: to_bcsr and jits_to_csr store JAX arrays")
        return to_scipy(self._connectivity, np.asarray(mantissa), self.backend, check_flag("progress", progress))

    # -- NumPy ---------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """np.matmul and np.multiply with NumPy operands; everything else would need the entries."""
        operations = {np.matmul: ("__matmul__", "__rmatmul__"), np.multiply: ("__mul__", "__rmul__")}
        if method != "__call__" or ufunc not in operations or kwargs or len(inputs) != 2:
            raise TypeError(
                f"np.{ufunc.__name__} would need the entries of a matrix that has none stored: use W @ x, x @ W,"
                " or W.todense()"
            )
        left, right = operations[ufunc]
        return getattr(self, left)(inputs[1]) if inputs[0] is self else getattr(self, right)(inputs[0])

    def __array_function__(self, func, types, args, kwargs):
        answers = {np.shape: self.shape, np.ndim: 2, np.size: self.size}
        if func in answers:
            return answers[func]
        if func in (np.iscomplexobj, np.isrealobj):
            return func(np.empty(0, self.dtype))
        raise TypeError(f"np.{func.__name__} would make a JITScalarMatrix dense: use W @ x, x @ W, or W.todense()")

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def _describe(x):
    shape = getattr(x, "shape", None)
    return repr(x) if shape in (None, ()) else f"{type(x).__name__} of shape {tuple(shape)}"


def check_axis(axis, choices):
    """0 or 1."""
    if type(axis) in (bool, float) or axis not in (0, 1, -1, -2):
        raise ValueError(f"axis must be {choices}, got {axis!r}")
    return axis % 2


def _number(index, method):
    """An index that picks lines, and no block of them."""
    if index is None or index is Ellipsis or isinstance(index, slice | tuple):
        raise TypeError(f"{method} takes the number of a line, or an array of numbers, got {index!r}")
    return index


def _equal_connectivity(a, b):
    def same(x, y):
        if is_data(x) or is_data(y):
            return x is y
        return x == y

    return all(same(x, y) for x, y in zip(a, b, strict=True))


def _check_inner(left, right):
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        raise ValueError(f"shapes do not match: {tuple(left)} @ {tuple(right)}")


def _columnwise(W, stored, step=64):
    """W @ stored as a NumPy array, some columns at a time so that the stored matrix is never made dense whole."""
    if W.unit != u.UNITLESS:
        mantissa, unit = split_unit(W.weight)
        return join_unit(_columnwise(W.with_data(mantissa), stored, step), unit)
    parts = [np.asarray(W @ stored[:, i : i + step].toarray()) for i in range(0, stored.shape[1], step)]
    if not parts:
        return np.zeros((W.shape[0], 0), np.result_type(W.dtype, stored.dtype))
    return np.concatenate(parts, axis=1)


def _as_operator(W, x):
    if isinstance(x, np.ndarray):
        if W.unit != u.UNITLESS:
            raise ValueError(
                f"scipy's operators are plain numbers and the weight is in {W.unit}: use W @ x, or W / unit"
            )
        return np.array(W @ x)
    return W @ x

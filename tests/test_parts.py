"""A part of a matrix, taken by index, is that part of the dense matrix, and costs what the part costs."""

import functools
import pickle
import time

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.sparse
from cases import operand

from jitmat import JITScalarMatrix

SHAPE = (600, 900)
equal = np.testing.assert_array_equal


@functools.cache
def of_definition(shape, corder, diagonal=True):
    P = 0.5 * reference.pattern(shape, 0.3, 7, corder).astype(np.float32)
    return P if diagonal else P * (1 - np.eye(len(P), dtype=np.float32))


@functools.cache
def several(corder):
    """name -> (matrix, its dense form by the definition): whole, transposed and cut, and without a diagonal."""
    W, D = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE, corder=corder), of_definition(SHAPE, corder)
    S = JITScalarMatrix(0.5, 0.3, 7, shape=(600, 600), diagonal=False, corder=corder)
    E = of_definition((600, 600), corder, diagonal=False)
    return {
        "whole": (W, D),
        "view of a view": (W[100:580, 37:].T[3:, 5:-5][:500, 1:], D[100:580, 37:].T[3:, 5:-5][:500, 1:]),
        "view without the diagonal": (S.T[20:550, 10:], E.T[20:550, 10:]),
        "array seed": (JITScalarMatrix(0.5, jnp.float32(0.25), jnp.int32(7), shape=(30, 40), corder=corder), None),
    }


@pytest.fixture(params=[False, True], ids=["columns", "rows"])
def corder(request):
    return request.param


@pytest.fixture(params=list(several(False)))
def pair(request, corder):
    A, D = several(corder)[request.param]
    return A, np.asarray(A.todense()) if D is None else D


INDICES = {
    "i": 3,
    "-i": -1,
    "NumPy i": np.int64(5),
    "JAX i": jnp.int32(5),
    ":, j": (slice(None), 5),
    "i, j": (3, 4),
    "-i, -j": (-3, -4),
    "i, :": (7, slice(None)),
    "i, a:b": (7, slice(3, 9)),
    "a:b, j": (slice(-9, -3), 2),
    "list": [1, 2, -1],
    "array": np.array([4, 4, 0]),
    "unsigned array": np.array([4, 4, 0], np.uint8),
    "JAX array": jnp.array([2, 1]),
    "array of two dimensions": np.array([[1, 2], [3, 4]]),
    "no rows": [],
    "columns": (slice(None), [0, 3, 5]),
    "columns of two dimensions": (slice(2, 9), np.array([[1, 2], [3, 4]])),
    "rows of a block": ([1, 2], slice(3, 8)),
    "pairs": ([1, 2], [3, 4]),
    "a row's entries": (5, [3, 4, 3]),
    "a grid": (np.array([[1], [2]]), np.array([3, 4, 5])),
    "...": Ellipsis,
    "..., j": (Ellipsis, 3),
    "i, ...": (2, Ellipsis),
    "i, ..., j": (2, Ellipsis, 3),
    "a:b": slice(2, 9),
    "a:b, c:d": (slice(2, 9), slice(None, -3)),
    "beyond": (slice(2, 10**6), slice(-(10**6), 4)),
    "empty": (slice(5, 5), slice(9, 3)),
    "()": (),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_gives_that_part_of_the_dense_matrix(corder, name):
    check_part(*several(corder)["view of a view"], INDICES[name])


@pytest.mark.parametrize("name", ["-i", ":, j", "i, j", "list", "columns", "a:b, c:d"])
def test_every_kind_of_matrix_is_indexed_alike(pair, name):
    check_part(*pair, INDICES[name])


def check_part(A, D, index):
    part = A[index]
    items = (
        np.asarray(k, int) if isinstance(k, list) else k for k in (index if isinstance(index, tuple) else (index,))
    )
    expected = D[tuple(items)]
    if expected.ndim == 2 and isinstance(part, JITScalarMatrix):
        part = part.todense()
    assert isinstance(part, jax.Array)
    assert part.shape == expected.shape
    assert part.dtype == A.dtype
    equal(part, expected)


def test_a_contiguous_block_is_a_matrix_again(pair):
    A, D = (part[2:20, 3:] for part in pair)
    assert isinstance(A, JITScalarMatrix)
    equal(A.todense(), D)
    equal(A.tocsr().toarray(), D)
    assert A.nnz == (D != 0).sum()
    x, y = operand(D.shape[1], "float32"), operand(D.shape[0], "float32")
    for z, w in ((x, y), (x != 0, y != 0), (np.stack([x, -x], 1), np.stack([y, -y]).T)):
        equal(A @ z, D @ z)
        equal(w.T @ A, w.T @ D)
        equal(A.T @ w, D.T @ w)
    equal((A + A - A / 2).todense(), 1.5 * D)
    assert hash(A) == hash(pair[0][2:20][:, 3:]) if isinstance(A.seed, int) else True
    equal(pickle.loads(pickle.dumps(A)).todense(), D)


def test_plain_jax_gives_the_same_parts(corder):
    A = JITScalarMatrix(0.5, 0.3, 7, shape=(90, 90), corder=corder, diagonal=False, backend="jax")[5:, 7:]
    D = of_definition((90, 90), corder, diagonal=False)[5:, 7:]
    equal(A[3], D[3])
    equal(A[:, 4], D[:, 4])
    equal(A[3, 4], D[3, 4])
    equal(A[[1, 80]], D[[1, 80]])
    equal(A.diagonal(), D.diagonal())
    equal(A.degrees(0), (D != 0).sum(0))
    equal(A.degrees(1), (D != 0).sum(1))


def test_a_walk_without_an_inverse_gives_its_parts_too(corder):
    """The renewal walk, whose blocks are no powers of two."""
    W = JITScalarMatrix(0.5, 0.3, 7, shape=(330, 330), corder=corder, diagonal=False, walk="renewal")
    D = np.asarray(W.todense())
    assert not D.diagonal().any()
    for A, E in ((W, D), (W.T[100:320, 5:], D.T[100:320, 5:])):
        for index in (3, (slice(None), 4), (3, 4), [1, 2]):
            check_part(A, E, index)
        equal(A[10:90, 7:80].todense(), E[10:90, 7:80])
        equal(A.diagonal(9), E.diagonal(9))
        equal(A.degrees(0), (E != 0).sum(0))
        equal(A.degrees(1), (E != 0).sum(1))


def test_rows_and_columns_have_names(pair):
    A, D = pair
    equal(A.row(3), D[3])
    equal(A.col(-2), D[:, -2])


def test_diagonals_are_those_of_the_dense_matrix(pair):
    A, D = pair
    for k in (0, 1, -1, 13, -25):
        equal(A.diagonal(k), D.diagonal(k))
    assert A.diagonal(10**6).shape == A.diagonal(-(10**6)).shape == (0,)


def test_degrees_sums_and_means_are_those_of_the_dense_matrix(pair):
    A, D = pair
    for axis in (0, 1, -1, -2):
        degrees = A.degrees(axis)
        assert degrees.dtype == np.int32
        equal(degrees, (D != 0).sum(axis))
        equal(A.sum(axis), D.sum(axis))
        np.testing.assert_allclose(A.mean(axis), D.mean(axis), rtol=1e-6)
    equal(A.sum(), D.sum())
    np.testing.assert_allclose(A.mean(), D.mean(), rtol=1e-6)


@pytest.mark.parametrize("weight", [3, np.float16(0.5), 1 + 2j, np.int8(-2)])
def test_sums_and_means_have_numpys_dtypes(weight):
    A = JITScalarMatrix(weight, 0.3, 7, shape=(30, 20))
    D = jnp.asarray(A.todense())
    for axis in (0, 1):
        assert A.sum(axis).dtype == D.sum(axis).dtype
        assert A.mean(axis).dtype == D.mean(axis).dtype == A.mean().dtype
        np.testing.assert_allclose(A.mean(axis), D.mean(axis), rtol=2e-3)
    assert JITScalarMatrix(weight, 0.3, 7, shape=(0, 20)).mean(1).shape == (0,)
    assert np.isnan(JITScalarMatrix(weight, 0.3, 7, shape=(0, 20)).mean(0)).all()
    assert np.isnan(JITScalarMatrix(weight, 0.3, 7, shape=(0, 20)).mean())


def test_traced_indices_work_under_jit_and_vmap(pair):
    A, D = pair
    equal(jax.jit(lambda i: A[i])(3), D[3])
    equal(jax.jit(lambda i: A[i])(-2), D[-2])
    equal(jax.jit(lambda i: A[:, i])(jnp.int8(7)), D[:, 7])
    equal(jax.jit(lambda i, j: A[i, j])(7, 4), D[7, 4])
    equal(jax.jit(lambda i: A[i, 4])(7), D[7, 4])
    equal(jax.jit(lambda i: A[i])(10**6), D[-1])  # held within the shape
    equal(jax.jit(lambda i: A[jnp.arange(4) + i, 3:9])(6), D[6:10, 3:9])
    equal(jax.vmap(lambda i: A[i])(jnp.arange(5)), D[:5])
    equal(jax.vmap(lambda i, j: A[i, j])(jnp.arange(5), jnp.arange(5)), D.diagonal()[:5])
    _, rows = jax.lax.scan(lambda c, i: (c, A[2:][i]), None, jnp.arange(3))
    equal(rows, D[2:5])
    with jax.enable_x64(True):
        equal(jax.jit(lambda i: A[:, i])(np.int64(-7)), D[:, -7])


def test_parts_are_linear_in_the_weight(corder):
    A, _ = several(corder)["view without the diagonal"]
    parts = (
        lambda A: A[3],
        lambda A: A[:, 4],
        lambda A: A[[1, 2], 5:],
        lambda A: A[2:, 3:] @ jnp.ones(A.shape[1] - 3),
        lambda A: A.diagonal() + A.mean(1)[: min(A.shape)],
    )
    for part in parts:
        found = jax.grad(lambda w, part=part: part(A.with_data(w)).sum())(jnp.float32(0.25))
        np.testing.assert_allclose(found, 2 * np.sum(part(A), dtype=float), rtol=1e-5)
        doubled = jax.jit(jax.vmap(lambda w, part=part: part(A.with_data(w))))(jnp.float32([0.5, 1.0]))
        np.testing.assert_allclose(doubled[1], 2 * part(A), rtol=1e-6)


def test_a_gradient_over_a_view_is_a_view():
    A = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)[3:40, 5:]
    gradient = jax.grad(lambda A: (A @ jnp.ones(A.shape[1])).sum())(A)
    assert jax.tree.structure(gradient) == jax.tree.structure(A)
    assert gradient.data == A.nnz


def test_an_ensemble_gives_the_parts_of_each(corder):
    Ws = [JITScalarMatrix(0.5, 0.3, seed, shape=(40, 30), corder=corder) for seed in range(3)]
    stack = JITScalarMatrix.stack(Ws)
    for part in (
        lambda A: A[3],
        lambda A: A[:, 4],
        lambda A: A.diagonal(),
        lambda A: A.degrees(0),
        lambda A: A[1:, 2:][5],
    ):
        equal(jax.vmap(part)(stack), np.stack([part(W) for W in Ws]))


def test_parts_keep_the_unit_and_the_dtype():
    W, D = JITScalarMatrix(0.5 * u.mS, 0.3, 7, shape=SHAPE), of_definition(SHAPE, False)
    for part, expected in (
        (W[3], D[3]),
        (W[:, 4], D[:, 4]),
        (W[[1, 2]], D[[1, 2]]),
        (W[1:, 2:].todense(), D[1:, 2:]),
        (W.diagonal(), D.diagonal()),
        (W.sum(0), D.sum(0)),
        (W.mean(), D.mean()),
    ):
        np.testing.assert_allclose(u.get_mantissa(part.to(u.mS)), expected, rtol=1e-6)
    for dtype in (np.float16, np.complex64, np.int32):
        assert W[3].dtype == np.float32
        assert (JITScalarMatrix(1, 0.3, 7, shape=SHAPE).astype(dtype))[3].dtype == dtype


def test_the_repr_of_a_view_says_of_what_it_is_the_block():
    W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
    whole = "JITScalarMatrix(weight=0.5, prob=0.3, seed=7, shape=(600, 900), corder=False)"
    assert repr(W[:]) == whole
    assert repr(W[3:20, 5:]) == whole + "[3:20, 5:900]"
    for A in (W[3:20, 5:], W.T[8:, 9:][:, 1:], JITScalarMatrix(0.5, 0.3, 7, shape=(9, 9), diagonal=False)[1:]):
        assert repr(eval(repr(A))) == repr(A)
        equal(eval(repr(A)).todense(), A.todense())


def test_matrices_add_when_they_are_the_same_block():
    W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
    equal((W[3:, 5:] + 2 * W[3:][:, 5:]).todense(), 3 * W[3:, 5:].todense())
    for other in (W[4:, 5:], W[3:, 4:], W[3:-1, 5:]):
        with pytest.raises(NotImplementedError, match="block"):
            W[3:, 5:] + other


def test_a_line_of_a_million_square_takes_the_time_of_a_line(corder):
    """A product of this matrix would visit 10^11 nonzeros; a line along a stream 10^5, one across 10^6 look-ups."""
    n, line = 10**6, 777_777
    W = JITScalarMatrix(1.0, 0.1, 5, shape=(n, n), corder=corder)
    along = (lambda i: W[i]) if corder else (lambda i: W[:, i])
    across = (lambda i: W[:, i]) if corder else (lambda i: W[i])
    along(0), across(0)  # compiled
    begin = time.perf_counter()
    along, across = np.asarray(along(line)), np.asarray(across(line))
    assert time.perf_counter() - begin < 5
    equal(np.flatnonzero(along), reference.positions_of(line, n, 0.1, 5))
    bits = reference.block_bits(n)
    streams = np.r_[:200, n - 200 : n]
    drawn, words = reference.keys(5, streams, line >> bits)
    place = np.full((len(streams), 1), line & (2**bits - 1))
    holds = reference.invert(place, bits, words)[:, 0] < reference.count(drawn, bits, 0.1)
    equal(across[streams] != 0, holds)
    assert abs(across.sum() - 0.1 * n) < 6 * np.sqrt(0.09 * n)
    assert W[line, 3] == (along[3] if corder else across[3])


def test_lines_far_out_are_right():
    """Numbers of streams and positions near the end of their words, where a line still has few entries."""
    streams, length = 2**32, 2**40
    W = JITScalarMatrix(1.0, 0.1, 9, shape=(streams, length), corder=True)
    Q = reference.streams_of(np.arange(streams - 3, streams), length, 0.1, 9, length - 2000, length)
    view = W[-3:, -2000:]
    equal(view.todense(), Q)
    equal(view[1], Q[1])
    equal(view[[2, 0]], Q[[2, 0]])
    equal(view[:, 5], Q[:, 5])
    equal(W[-3:, -1], Q[:, -1])
    equal(jax.vmap(lambda i: view[i])(jnp.arange(3)), Q)
    equal(jax.jit(lambda j: view[:, j])(1999), Q[:, -1])
    equal(view.diagonal(), Q.diagonal())


# -- sums and counts beyond 32 bits --------------------------------------------------------------------


def test_counts_of_more_than_32_bits_are_right_or_refused():
    W = JITScalarMatrix(0.5, 1.0, 1, shape=(1, 2**33), corder=True)
    assert W.nnz == 2**33
    assert float(W.sum()) == 2**32
    assert W.mean() == 0.5
    assert abs(JITScalarMatrix(0.5, 0.001, 1, shape=(70_000, 70_000), corder=True).mean() / 0.0005 - 1) < 1e-2
    for count in (lambda: W.degrees(1), lambda: W.sum(1), lambda: W.mean(1)):
        with pytest.raises(ValueError, match="int32"):
            count()
    with pytest.raises(ValueError, match="jax_enable_x64"):
        W.astype(jnp.int32).sum()
    narrow = W[:, : 2**31 - 8]
    assert narrow.degrees(1).item() == 2**31 - 8


def test_sums_of_whole_numbers_have_the_dtype_of_jaxs_sums(x64):
    W = JITScalarMatrix(jnp.int8(3), 0.9, 1, shape=(1000, 70))
    dense = W.todense()
    for axis in (None, 0, 1):
        assert W.sum(axis).dtype == dense.sum(axis).dtype
        equal(W.sum(axis), dense.sum(axis))


def test_sums_and_means_of_an_ensemble(corder):
    seeds = jnp.arange(3)
    make = lambda seed: JITScalarMatrix(0.5, 0.3, seed, shape=(40, 30), corder=corder)
    sums = jax.jit(jax.vmap(lambda seed: (make(seed).sum(), make(seed).mean())))(seeds)
    for i in range(3):
        equal(sums[0][i], make(i).sum())
        np.testing.assert_allclose(sums[1][i], make(i).mean(), rtol=1e-6)


def test_halves_are_stored_as_scipys_smallest_floats(corder):
    for dtype in (jnp.float16, jnp.bfloat16):
        W = JITScalarMatrix(dtype(0.5), 0.5, 1, shape=(6, 4), corder=corder)
        for stored in (W.tocsr(), W.tocsc(), W.tocoo()):
            assert stored.dtype == np.float32
            equal(stored.toarray(), W.todense().astype(np.float32))


def test_sparse_matrices_times_a_weight_with_a_unit():
    W = JITScalarMatrix(0.5 * u.mV, 0.3, 7, shape=(20, 30))
    D = np.asarray((W / u.mV).todense())
    right, left = scipy.sparse.eye_array(30, 5), scipy.sparse.eye_array(6, 20)
    for found, told in ((W @ right, D @ right), (left @ W, left @ D)):
        assert found.unit == u.mV
        np.testing.assert_allclose(found.mantissa, told)


@pytest.mark.parametrize(
    "call",
    [
        lambda W: bool(W),
        lambda W: W.row((1, 2)),
        lambda W: W.col(slice(3)),
        lambda W: W.row(...),
        lambda W: W.diagonal(1.5),
        lambda W: W.diagonal(True),
        lambda W: W.with_spectral_radius(None),
        lambda W: W.with_spectral_radius(np.bool_(True)),
    ],
)
def test_slips_are_named(call):
    with pytest.raises(TypeError, match=r"neither true|takes the number|real number"):
        call(JITScalarMatrix(0.5, 0.3, 7, shape=(20, 20)))


def test_the_trace_is_the_diagonals_sum():
    W = JITScalarMatrix(0.5, 0.3, 7, shape=(30, 30))
    assert W.trace() == np.trace(W.todense())

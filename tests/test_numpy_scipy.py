"""NumPy arrays, lists, scipy matrices and scipy's solvers on either side of the matrix."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.sparse
import scipy.sparse.linalg

from jitmat import JITScalarMatrix, Spikes

SHAPE = (30, 20)
P = reference.pattern(SHAPE, 0.3, 7)
W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
x, y = np.arange(20, dtype=np.float32), np.arange(30, dtype=np.float32)
X, Y = np.stack([x, -x], axis=1), np.stack([y, 2 * y])

equal = np.testing.assert_array_equal


def test_numpy_arrays_multiply_from_both_sides():
    for left, right in ((W, x), (W, X), (y, W), (Y, W), (W.T, y), (x, W.T)):
        dense = [0.5 * P if z is W else 0.5 * P.T if isinstance(z, JITScalarMatrix) else z for z in (left, right)]
        product = left @ right
        assert isinstance(product, jax.Array)
        equal(product, dense[0] @ dense[1])
        equal(np.matmul(left, right), dense[0] @ dense[1])


def test_lists_multiply_from_both_sides():
    equal(W @ x.tolist(), 0.5 * P @ x)
    equal(y.tolist() @ W, 0.5 * y @ P)
    equal(W @ X.tolist(), 0.5 * P @ X)
    equal(Y.tolist() @ W, 0.5 * Y @ P)
    equal(W @ ([True] * 20), 0.5 * P.sum(axis=1))


def test_events_multiply_from_both_sides():
    equal(W @ (x > 7), 0.5 * P @ (x > 7))
    equal((y > 7) @ W, 0.5 * (y > 7) @ P)
    equal(W @ Spikes(x - 7), 0.5 * P @ (x > 7))
    equal(Spikes(y - 7) @ W, 0.5 * (y > 7) @ P)
    equal(W @ Spikes(np.int32(x) - 7), 0.5 * P @ (x != 7))
    equal(W @ np.int8(x), 0.5 * P @ x)

    class BinaryArray:
        def __init__(self, value):
            self.value = value

    equal(W @ BinaryArray(jnp.asarray(x - 7)), 0.5 * P @ (x > 7))
    equal(BinaryArray(jnp.asarray(y - 7)) @ W, 0.5 * (y > 7) @ P)


def test_views_of_numpy_arrays_are_read_right():
    wide = np.arange(80, dtype=np.float32).reshape(20, 4)
    equal(W @ wide[:, 1], 0.5 * P @ wide[:, 1])
    equal(W @ wide[::-1, ::2], 0.5 * P @ wide[::-1, ::2])
    equal(W @ np.asfortranarray(wide), 0.5 * P @ wide)
    equal(W @ np.broadcast_to(np.float32(1), (20,)), 0.5 * P.sum(axis=1))
    big_endian = x.astype(">f4")
    equal(W @ big_endian, 0.5 * P @ x)


@pytest.mark.parametrize("scalar", [2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.array(2.0), jnp.float32(2)])
def test_scalars_scale_from_both_sides(scalar):
    for scaled in (W * scalar, scalar * W, W / (1 / scalar)):
        assert isinstance(scaled, JITScalarMatrix)
        assert scaled.data == 1.0
    equal(np.multiply(scalar, W).todense(), P)


def test_arithmetic_gives_matrices_of_the_same_pattern():
    for matrix, weight in ((-W, -0.5), (+W, 0.5), (abs(-W), 0.5), (W + W, 1.0), (W - 3 * W, -1.0), (sum([W, W]), 1.0)):
        assert isinstance(matrix, JITScalarMatrix)
        equal(matrix.todense(), weight * P)
    complex_one = W * 1j
    assert complex_one.dtype == np.complex64
    equal(complex_one.H.todense(), -0.5j * P.T)
    equal(complex_one.conj().todense(), -0.5j * P)
    assert W.astype(jnp.float16).dtype == np.float16
    assert (W.T.T.shape, W.T.shape, W.ndim, W.size) == ((30, 20), (20, 30), 2, 600)
    assert W.with_data(3).data == 3


def test_stored_forms_of_jax_are_the_matrix():
    for A in (W, W.T, W[3:, 2:-1], JITScalarMatrix(0.5, 0.3, 7, shape=(9, 9), diagonal=False), W[:0]):
        D = A.todense()
        for stored in (A.to_bcsr(), A.to_bcoo()):
            assert (stored.shape, stored.nse, stored.dtype) == (A.shape, A.nnz, A.dtype)
            equal(stored.todense(), D)
            assert stored.indices_sorted
            assert stored.unique_indices
            equal(stored @ jnp.ones(A.shape[1]), A @ jnp.ones(A.shape[1]))
    for form in (lambda A: A.to_bcsr(), lambda A: A.to_bcoo()):
        gradient = jax.jit(jax.grad(lambda A, form=form: (form(A) @ x).sum()))(W)
        equal(gradient.data, (P @ x).sum())


def test_progress_is_shown_where_it_is_asked_for(capsys, monkeypatch):
    for method in ("tocsr", "tocsc", "tocoo"):
        stored = getattr(W, method)
        equal(stored(progress=True).toarray(), stored().toarray())
        shown = capsys.readouterr().err
        assert f"{W.nnz}/{W.nnz}" in shown
        assert "nonzeros" in shown
    W.tocsr()
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm: pip install tqdm"):
        W.tocsr(progress=True)
    equal(W.tocsr().toarray(), 0.5 * P)


def test_scipy_matrices_multiply_to_dense_results():
    stored = scipy.sparse.random_array((20, 7), density=0.3, rng=0, dtype=np.float32)
    for form in ("csr", "csc", "coo"):
        right, left = stored.asformat(form), scipy.sparse.csr_array(np.ones((3, 30), np.float32)).asformat(form)
        np.testing.assert_allclose(W @ right, 0.5 * P @ stored.toarray(), rtol=1e-6)
        assert isinstance(W @ right, np.ndarray)
        np.testing.assert_allclose(left @ W, 0.5 * np.ones((3, 30)) @ P, rtol=1e-6)
    old = scipy.sparse.csr_matrix(stored)
    np.testing.assert_allclose(W @ old, 0.5 * P @ stored.toarray(), rtol=1e-6)
    np.testing.assert_allclose(scipy.sparse.csr_matrix(np.ones((3, 30))) @ W, 0.5 * np.ones((3, 30)) @ P, rtol=1e-6)
    assert (W @ scipy.sparse.csr_array((20, 0))).shape == (30, 0)


def test_numpy_asks_about_the_matrix_without_its_entries():
    assert np.shape(W) == (30, 20)
    assert np.ndim(W) == 2
    assert not np.iscomplexobj(W)


def test_a_linear_operator_takes_vectors_and_columns_and_returns_fresh_arrays():
    A = scipy.sparse.linalg.aslinearoperator(W)
    assert A.dtype == np.float32
    for result, expected in (
        (A.matvec(x), 0.5 * P @ x),
        (W.matvec(x[:, None]), 0.5 * (P @ x)[:, None]),
        (W.rmatvec(y[:, None]), 0.5 * (y @ P)[:, None]),
        (A.rmatvec(y), 0.5 * y @ P),
        (A.matmat(X), 0.5 * P @ X),
        (A.rmatmat(Y.T), 0.5 * P.T @ Y.T),
        (A @ x, 0.5 * P @ x),
        (A.T @ y, 0.5 * y @ P),
        (W.matvec(x), 0.5 * P @ x),
    ):
        assert isinstance(result, np.ndarray)
        equal(result, expected)
        result[...] = 0  # writable
    equal(W @ x, 0.5 * P @ x)


def test_solvers_of_scipy_take_the_matrix_as_it_is():
    with jax.enable_x64(True):
        A = JITScalarMatrix(np.float64(0.5), 0.3, 7, shape=(60, 40))
        D = np.asarray(A.todense())
        values = scipy.sparse.linalg.svds(A, k=3, return_singular_vectors=False, rng=0)
        np.testing.assert_allclose(np.sort(values)[::-1], np.linalg.svd(D, compute_uv=False)[:3], rtol=1e-8)
        right = D @ np.arange(40.0)
        np.testing.assert_allclose(
            scipy.sparse.linalg.lsqr(A, right, atol=1e-12, btol=1e-12)[0], np.arange(40.0), atol=1e-5
        )
        S = JITScalarMatrix(np.float64(1), 0.3, 7, shape=(40, 40))
        E = np.asarray(S.todense())
        largest = scipy.sparse.linalg.eigs(S, k=1, return_eigenvectors=False, rng=0)
        np.testing.assert_allclose(np.abs(largest), np.abs(np.linalg.eigvals(E)).max(), rtol=1e-8)
        solution, failed = scipy.sparse.linalg.gmres(S, E @ np.ones(40), rtol=1e-10, restart=40)
        assert failed == 0
        np.testing.assert_allclose(E @ solution, E @ np.ones(40), atol=1e-6)


def test_sums_are_those_of_the_stored_matrix():
    W = JITScalarMatrix(0.5, 0.3, 7, shape=(40, 30))
    stored = W.tocsr()
    assert W.sum() == stored.sum()
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(W.sum(axis), stored.sum(axis))
    with pytest.raises(ValueError, match="axis must be 0, 1 or None, got 2"):
        W.sum(axis=2)

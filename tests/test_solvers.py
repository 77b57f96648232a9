"""Solvers of scipy, JAX and lineax take the matrix, gradients included; its spectral radius is the dense one's."""

import brainunit as u
import jax
import jax.numpy as jnp
import jax.scipy.sparse.linalg
import lineax
import numpy as np
import pytest
import scipy.sparse.linalg

from jitmat import JITScalarMatrix, spectral_radius

N = 40
S = JITScalarMatrix(0.5, 0.3, 7, shape=(N, N))
D = np.asarray(S.todense(), float)
b = jnp.asarray(np.random.default_rng(0).normal(size=N), jnp.float32)
STEP = np.float32(0.1)
M = np.eye(N) - STEP * D  # far from singular


def near_identity(W):
    return lambda x: x - STEP * (W @ x)


def normal_equations(W):
    return lambda x: x + STEP * (W.T @ (W @ x))


def test_linear_operators_of_scipy_have_the_matrix_and_its_transpose():
    A = scipy.sparse.linalg.aslinearoperator(S)
    np.testing.assert_allclose(A.matmat(np.eye(N, dtype=np.float32)), D)
    np.testing.assert_allclose(A.rmatmat(np.eye(N, dtype=np.float32)), D.T)
    both = (2 * A + scipy.sparse.linalg.aslinearoperator(np.eye(N))) @ np.ones(N)
    np.testing.assert_allclose(both, 2 * D.sum(1) + 1, rtol=1e-6)


def test_eigenvalues_and_singular_values_of_scipy_are_those_of_the_dense_matrix():
    with jax.enable_x64(True):
        A = S.astype(np.float64)
        for part, dense in ((A, D), (A.T, D.T), (A[:30, 2:32], D[:30, 2:32])):
            values = scipy.sparse.linalg.eigs(part, k=4, return_eigenvectors=False, rng=0)
            told = np.linalg.eigvals(dense)
            for value in values:
                assert np.abs(told - value).min() < 1e-8
            np.testing.assert_allclose(np.abs(values).max(), np.abs(told).max(), rtol=1e-8)
        for part, dense in ((A[:, 5:], D[:, 5:]), (A[5:], D[5:])):
            values = scipy.sparse.linalg.svds(part, k=4, return_singular_vectors=False, rng=0)
            np.testing.assert_allclose(np.sort(values)[::-1], np.linalg.svd(dense, compute_uv=False)[:4], rtol=1e-8)
            left, values, right = scipy.sparse.linalg.svds(part, k=4, rng=0)
            np.testing.assert_allclose(dense @ right.T, left * values, atol=1e-8)


def test_solvers_of_scipy_solve():
    with jax.enable_x64(True):
        A = S.astype(np.float64)
        tall, right = A[:, :25], np.asarray(b, float)
        found = scipy.sparse.linalg.lsqr(tall, right, atol=1e-13, btol=1e-13)[0]
        np.testing.assert_allclose(found, np.linalg.lstsq(D[:, :25], right)[0], atol=1e-8)
        found, failed = scipy.sparse.linalg.gmres(A, right, rtol=1e-12, restart=N)
        assert failed == 0
        np.testing.assert_allclose(D @ found, right, atol=1e-8)


def test_solvers_of_scipy_refuse_a_unit():
    with pytest.raises(ValueError, match="weight is in mS"):
        scipy.sparse.linalg.lsqr(S * u.mS, np.ones(N))


SOLVERS = {
    "gmres": (jax.scipy.sparse.linalg.gmres, near_identity, M),
    "bicgstab": (jax.scipy.sparse.linalg.bicgstab, near_identity, M),
    "cg": (jax.scipy.sparse.linalg.cg, normal_equations, np.eye(N) + STEP * D.T @ D),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_of_jax_solve_and_are_differentiable(name):
    solver, operator, dense = SOLVERS[name]
    solve = lambda W, b: solver(operator(W), b, tol=1e-6)[0]
    np.testing.assert_allclose(solve(S, b), np.linalg.solve(dense, b), atol=1e-4)
    by_matrix, by_b = jax.grad(lambda W, b: jnp.sum(solve(W, b) ** 2), argnums=(0, 1))(S, b)

    def by_dense(w, b):
        A = w * jnp.asarray(D, jnp.float32) * 2
        matrix = jnp.eye(N) + STEP * A.T @ A if name == "cg" else jnp.eye(N) - STEP * A
        return jnp.sum(jnp.linalg.solve(matrix, b) ** 2)

    told = jax.grad(by_dense, argnums=(0, 1))(jnp.float32(0.5), b)
    np.testing.assert_allclose(by_matrix.data, told[0], rtol=1e-3)
    np.testing.assert_allclose(by_b, told[1], rtol=1e-3, atol=1e-3)


def test_the_matrix_itself_is_an_operator_for_jax():
    """`W.__matmul__` is what JAX's solvers take for W."""
    with jax.enable_x64(True):
        A = JITScalarMatrix(np.float64(1), 0.3, 7, shape=(N, N))
        right = A @ np.ones(N)
        found, _ = jax.scipy.sparse.linalg.gmres(A.__matmul__, right, tol=1e-10, restart=N)
        np.testing.assert_allclose(A @ found, right, atol=1e-6)


def test_lineax_solves_and_is_differentiable():
    def solve(W, b):
        operator = lineax.FunctionLinearOperator(near_identity(W), jax.eval_shape(lambda: b))
        return lineax.linear_solve(operator, b, lineax.GMRES(rtol=1e-6, atol=1e-6)).value

    np.testing.assert_allclose(solve(S, b), np.linalg.solve(M, b), atol=1e-4)
    by_matrix, by_b = jax.grad(lambda W, b: jnp.sum(solve(W, b) ** 2), argnums=(0, 1))(S, b)
    by_dense = lambda w, b: jnp.sum(jnp.linalg.solve(jnp.eye(N) - 2 * w * STEP * jnp.asarray(D, jnp.float32), b) ** 2)
    told = jax.grad(by_dense, argnums=(0, 1))(jnp.float32(0.5), b)
    np.testing.assert_allclose(by_matrix.data, told[0], rtol=1e-3)
    np.testing.assert_allclose(by_b, told[1], rtol=1e-3, atol=1e-3)


def dense_radius(W):
    return np.abs(np.linalg.eigvals(np.asarray(W.todense(), complex))).max()


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("nonzeros_a_row", [2, 10, 300])
def test_the_spectral_radius_is_that_of_the_dense_matrix(nonzeros_a_row, corder, x64):
    for seed in range(3):
        W = JITScalarMatrix(-0.5, nonzeros_a_row / 300, seed, shape=(300, 300), corder=corder)
        radius = spectral_radius(W)
        assert radius.dtype == (np.float64 if x64 else np.float32)
        np.testing.assert_allclose(radius, dense_radius(W), rtol=2e-14 if x64 else 5e-6)


@pytest.mark.parametrize("nonzeros_a_row", [0.5, 1, 1.3])
def test_the_spectral_radius_of_a_nearly_empty_matrix_is_near(nonzeros_a_row):
    """Short cycles, chains of them and none at all."""
    radii = []
    for seed in range(20):
        n = (3, 20, 100)[seed % 3]
        W = JITScalarMatrix(2.0, nonzeros_a_row / n, seed, shape=(n, n))
        radii.append(2 * np.abs(np.linalg.eigvals(np.asarray(W.tocsr().astype(bool).toarray(), float))).max())
        if radii[-1] < 1:  # a cycle has at least 1
            assert spectral_radius(W) == 0
        else:
            np.testing.assert_allclose(spectral_radius(W), radii[-1], rtol=2e-3)
    assert max(radii) >= 2


def test_the_spectral_radius_of_views_weights_and_units():
    W = JITScalarMatrix(0.5, 0.1, 3, shape=(200, 200))
    for A in (
        W.T,
        W[:150, 50:],
        W * 1j,
        W * (3 - 4j),
        W.astype(np.float16),
        JITScalarMatrix(2, 0.1, 3, shape=(200, 200)),
    ):
        np.testing.assert_allclose(spectral_radius(A), dense_radius(A), rtol=1e-5)
    radius = spectral_radius(W * u.mS)
    np.testing.assert_allclose(u.get_mantissa(radius.to(u.mS)), dense_radius(W), rtol=1e-5)
    for empty in (
        W * 0,
        JITScalarMatrix(1.0, 0.0, 3, shape=(9, 9)),
        JITScalarMatrix(1.0, 0.5, 3, shape=(0, 0)),
        W[5:5, :0],
    ):
        assert spectral_radius(empty) == 0
    assert spectral_radius(JITScalarMatrix(1.0, 1.0, 3, shape=(1, 1))) == 1
    np.testing.assert_allclose(spectral_radius(JITScalarMatrix(1.0, 1.0, 3, shape=(50, 50))), 50, rtol=1e-6)


def test_the_spectral_radius_works_under_jit_vmap_and_grad():
    W = JITScalarMatrix(-0.5, 0.1, 3, shape=(200, 200))
    radius = spectral_radius(W)
    np.testing.assert_allclose(jax.jit(spectral_radius)(W), radius, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda W: spectral_radius(W))(W).data, -2 * radius, rtol=1e-6)
    stack = JITScalarMatrix.stack([JITScalarMatrix(1.0, 0.1, seed, shape=(200, 200)) for seed in range(3)])
    told = [spectral_radius(JITScalarMatrix(1.0, 0.1, seed, shape=(200, 200))) for seed in range(3)]
    np.testing.assert_allclose(jax.vmap(spectral_radius)(stack), told, rtol=1e-6)


def test_a_reservoir_is_scaled_to_its_spectral_radius():
    W = JITScalarMatrix(-0.5, 0.1, 3, shape=(200, 200))
    for A in (W, W.T, W[:150, 50:], W * (1 + 1j), JITScalarMatrix(2, 0.1, 3, shape=(200, 200))):
        scaled = A.with_spectral_radius(0.9)
        np.testing.assert_allclose(dense_radius(scaled), 0.9, rtol=1e-5)
        np.testing.assert_allclose(np.angle(complex(scaled.data)), np.angle(complex(A.data)), rtol=1e-6)
    assert W.astype(np.float16).with_spectral_radius(0.9).dtype == np.float16
    assert W.with_spectral_radius(0).data == 0
    with_unit = (W * u.mV).with_spectral_radius(0.9 * u.mS)
    assert with_unit.unit == u.mS
    assert not isinstance((W * u.mV).with_spectral_radius(0.9).data, u.Quantity)
    found = jax.grad(lambda rho: W.with_spectral_radius(rho).data)(0.9)
    np.testing.assert_allclose(found, W.data / spectral_radius(W), rtol=1e-6)


@pytest.mark.parametrize(
    ("mistake", "kind", "fragment"),
    [
        (lambda: spectral_radius(S[1:]), ValueError, r"square.*\(39, 40\)"),
        (lambda: spectral_radius(D), TypeError, "JITScalarMatrix, got ndarray"),
        (lambda: S.with_spectral_radius(-1), ValueError, "at least 0, got -1"),
        (lambda: S.with_spectral_radius(float("nan")), ValueError, "nan"),
        (lambda: S.with_spectral_radius([1.0]), TypeError, r"real number, got \[1.0\]"),
        (lambda: S.with_spectral_radius(1j), TypeError, "1j"),
        (lambda: S.with_spectral_radius(None), TypeError, "None"),
        (lambda: S.with_spectral_radius("1"), TypeError, "'1'"),
        (lambda: (S * 0).with_spectral_radius(0.9), ValueError, "spectral radius is 0"),
    ],
)
def test_a_mistake_is_named(mistake, kind, fragment):
    with pytest.raises(kind, match=fragment):
        mistake()

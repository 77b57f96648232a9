"""`diagonal=False` leaves out the entries (i, i) and changes no other, in every product, gradient and stored form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import COMPILED, operand

from jitmat import JITScalarMatrix, Spikes, spectral_radius

equal = np.testing.assert_array_equal


def without_diagonal(n, prob, corder, backend=COMPILED):
    """(the matrix, its dense form by the definition)"""
    P = reference.pattern((n, n), prob, 11, corder).astype(np.float32)
    assert P.diagonal().any()
    A = JITScalarMatrix(0.5, prob, 11, shape=(n, n), diagonal=False, corder=corder, backend=backend)
    return A, 0.5 * P * (1 - np.eye(n, dtype=np.float32))


@pytest.fixture(params=[(1100, 0.1), (1100, 0.003), (600, 1.0)], ids=str)
def case(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["columns", "rows"])
def pair(case, request):
    return without_diagonal(*case, request.param)


def test_no_product_sees_the_diagonal(pair):
    W, D = pair
    for A, E in ((W, D), (W.T, D.T)):
        for size in (len(E), (len(E), 3)):
            x = operand(size, "float32")
            few = np.zeros(size, bool)
            few[::97] = True
            equal(A @ x, E @ x)
            equal(x.T @ A, x.T @ E)
            equal(A @ Spikes(x), E @ (x > 0))
            for events in (x != 0, few, np.ones(size, bool)):
                equal(A @ events, E @ events)
                equal(events.T @ A, events.T @ E)


def test_no_stored_form_has_the_diagonal(pair):
    W, D = pair
    equal(W.todense(), D)
    equal(W.tocsr().toarray(), D)
    equal(W.tocsc().toarray(), D)
    assert W.nnz == (D != 0).sum()
    equal(W.degrees(0), (D != 0).sum(0))
    equal(W.degrees(1), (D != 0).sum(1))
    assert not W.diagonal().any()
    assert W[5, 5] == 0
    equal(W[5], D[5])
    equal(W[:, 6], D[:, 6])


@pytest.mark.parametrize("corder", [False, True])
def test_plain_jax_leaves_it_out_too(corder):
    W, D = without_diagonal(90, 0.1, corder, "jax")
    x = operand(90, "float32")
    equal(W @ x, D @ x)
    equal(x @ W, x @ D)
    equal(W @ (x > 0), D @ (x > 0))
    equal(W.todense(), D)
    assert W.nnz == (D != 0).sum()


@pytest.mark.parametrize("corder", [False, True])
def test_no_gradient_sees_the_diagonal(corder):
    W, D = without_diagonal(1100, 0.1, corder)
    x, y = operand(1100, "float32"), operand(1100, "float32", 3)
    loss = lambda A, z: jnp.vdot(y, A @ z)
    by_matrix, by_operand = jax.grad(loss, argnums=(0, 1))(W, x)
    assert jax.tree.structure(by_matrix) == jax.tree.structure(W)
    equal(by_matrix.data, 2 * y @ D @ x)
    equal(by_operand, D.T @ y)
    equal(jax.grad(loss, argnums=1)(W.T, x), D @ y)
    equal(jax.vmap(lambda z: W @ z)(np.stack([x, y])), np.stack([D @ x, D @ y]))


@pytest.mark.parametrize("corder", [False, True])
def test_a_full_matrix_without_its_diagonal_is_all_but_the_identity(corder):
    W = JITScalarMatrix(1.0, 1.0, 0, shape=(70, 70), diagonal=False, corder=corder)
    equal(W.todense(), 1 - np.eye(70))
    np.testing.assert_allclose(spectral_radius(W), 69, rtol=1e-5)


def test_the_flag_is_part_of_what_the_matrix_is():
    W = JITScalarMatrix(0.5, 0.1, 11, shape=(60, 60), diagonal=False)
    whole = JITScalarMatrix(0.5, 0.1, 11, shape=(60, 60))
    assert "diagonal=False" in repr(W)
    assert "diagonal=False" in repr(W.T[3:])
    assert hash(W) != hash(whole)
    with pytest.raises(NotImplementedError, match="diagonal"):
        W + whole
    with pytest.raises(ValueError, match=r"square matrix, got shape \(60, 50\)"):
        JITScalarMatrix(0.5, 0.1, 11, shape=(60, 50), diagonal=False)
    with pytest.raises(TypeError, match="diagonal must be True or False, got 0"):
        JITScalarMatrix(0.5, 0.1, 11, shape=(60, 60), diagonal=0)

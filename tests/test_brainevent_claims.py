"""Claims of brainevent's own tests of its scalar family that no other test here makes; docs/brainevent.md has all.

brainevent need not be installed: these are our words for its claims, on our matrices.
"""

import inspect

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import jitmat
from jitmat import JITScalarMatrix

SHAPES = [(12, 20), (33, 33), (7, 5), (64, 3)]
FLAGS = [(transpose, corder) for transpose in (False, True) for corder in (False, True)]


@pytest.mark.parametrize(
    ("function", "operand"), [("jits", None), ("jitsmv", "vector"), ("jitsmm", "B")], ids=lambda x: str(x)
)
def test_functions_take_brainevents_arguments_in_brainevents_order(function, operand):
    theirs = ["weight", "prob", operand, "seed", "shape", "transpose", "corder", "backend"]
    for name in [function] if operand is None else [function, f"binary_{function}"]:
        ours = [parameter for parameter in inspect.signature(getattr(jitmat, name)).parameters if parameter != "walk"]
        assert ours == [parameter for parameter in theirs if parameter]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("corder", [False, True])
def test_a_matrix_depends_on_the_shape_of_the_result_alone(shape, corder):
    one = jitmat.jits(1.5, 0.2, 123, shape=shape, corder=corder)
    other = jitmat.jits(1.5, 0.2, 123, shape=shape[::-1], transpose=True, corder=corder)
    np.testing.assert_array_equal(one, other)
    turned = jitmat.jits(1.5, 0.2, 123, shape=shape, transpose=True, corder=not corder)
    np.testing.assert_array_equal(one, turned.T)


@pytest.mark.parametrize("shape", SHAPES)
def test_unit_vectors_find_one_matrix_from_both_sides(shape):
    m, n = shape
    columns = [jitmat.jitsmv(1.5, 0.2, e, 123, shape=(m, n), corder=True) for e in jnp.eye(n)]
    rows = [jitmat.jitsmv(1.5, 0.2, e, 123, shape=(n, m), corder=False) for e in jnp.eye(m)]
    expected = jitmat.jits(1.5, 0.2, 123, shape=(m, n), corder=True)
    np.testing.assert_array_equal(np.stack(columns, 1), expected)
    np.testing.assert_array_equal(np.stack(rows, 1).T, jitmat.jits(1.5, 0.2, 123, shape=(n, m), corder=False).T)


@pytest.mark.parametrize(("transpose", "corder"), FLAGS)
@pytest.mark.parametrize("columns", [1, 4, 33])
@pytest.mark.parametrize("name", ["jits", "binary_jits"])
def test_the_columns_of_a_matrix_product_are_products_of_vectors(name, columns, transpose, corder):
    arguments = {"shape": (20, 30), "transpose": transpose, "corder": corder}
    B = np.random.default_rng(0).integers(-2, 3, (20 if transpose else 30, columns)).astype(np.float32)
    whole = getattr(jitmat, f"{name}mm")(1.5, 0.1, B, 3, **arguments)
    single = [getattr(jitmat, f"{name}mv")(1.5, 0.1, B[:, i], 3, **arguments) for i in range(columns)]
    np.testing.assert_array_equal(whole, np.stack(single, 1))


@pytest.mark.parametrize(("transpose", "corder"), FLAGS)
def test_a_weight_of_zero_gives_zeros(transpose, corder):
    y = jitmat.jitsmv(0.0, 0.1, np.ones(20, np.float32), 3, shape=(20, 20), transpose=transpose, corder=corder)
    np.testing.assert_array_equal(y, np.zeros(20, np.float32))


def test_dense_matrices_are_batched_over_weight_prob_and_seed():
    dense = lambda weight=1.5, prob=0.3, seed=3: jitmat.jits(weight, prob, seed, shape=(20, 30))
    for name, values in [
        ("weight", jnp.arange(3.0)),
        ("prob", jnp.array([0.0, 0.1, 0.9], jnp.float32)),
        ("seed", jnp.array([0, 5, 99999])),
    ]:
        single = lambda value, name=name: dense(**{name: value})
        np.testing.assert_array_equal(jax.vmap(single)(values), [single(value) for value in values])


@pytest.mark.parametrize("corder", [False, True])
def test_the_stored_form_is_canonical_and_empty_at_prob_0(corder):
    data, indices, indptr = jitmat.jits_to_csr(1.5 * u.mV, 0.2, 123, shape=(20, 30), corder=corder)
    P = reference.pattern((20, 30), 0.2, 123, corder)
    assert u.get_unit(data) == u.mV
    np.testing.assert_array_equal(np.diff(indptr), P.sum(1))
    np.testing.assert_array_equal(indices, np.nonzero(P)[1])
    data, indices, indptr = jitmat.jits_to_csr(1.5, 0.0, 123, shape=(20, 30), corder=corder)
    assert data.shape == indices.shape == (0,)
    np.testing.assert_array_equal(indptr, np.zeros(21))


def test_data_is_the_weight_and_can_be_replaced():
    W = JITScalarMatrix(1.5, 0.1, 123, shape=(8, 6), corder=True)
    assert W.data == W.weight == 1.5
    again, other = W.with_data(W.data), W.with_data(2.0 * u.mV)
    for V in (again, other):
        assert (V.prob, V.seed, V.shape, V.corder) == (W.prob, W.seed, W.shape, W.corder)
    assert again.weight == 1.5
    assert u.get_unit(other.weight) == u.mV


def test_gradients_of_events_use_their_activity_and_not_their_value():
    W = JITScalarMatrix(1.5, 1.0, 0, shape=(3, 2))
    loss = lambda w: (jitmat.Spikes(jnp.array([0.0, 2.0, 1.0])) @ W.with_data(w)).sum()
    assert loss(1.5) == 6
    assert jax.grad(loss)(1.5) == 4
    assert jax.jvp(loss, (1.5,), (1.0,))[1] == 4

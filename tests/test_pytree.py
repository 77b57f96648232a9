"""A matrix is a pytree whose leaves are the weight and what was given as JAX data, and a value that can be kept."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import COMPILED

from jitmat import JITScalarMatrix, Spikes

W = JITScalarMatrix(0.5, 0.3, 7, shape=(30, 20))
x = jnp.ones(20)


def same(A, B):
    return repr(A) == repr(B) and (np.asarray(A.todense()) == np.asarray(B.todense())).all()


def test_the_weight_alone_is_a_leaf_unless_data_was_given():
    assert jax.tree.leaves(W) == [W.weight]
    assert len(jax.tree.leaves(JITScalarMatrix(0.5, jnp.float32(0.3), 7, shape=(30, 20)))) == 2
    assert len(jax.tree.leaves(JITScalarMatrix(0.5, 0.3, jnp.int32(7), shape=(30, 20)))) == 2
    assert len(jax.tree.leaves(JITScalarMatrix(0.5, jnp.float32(0.3), jax.random.key(7), shape=(30, 20)))) == 3
    for numpy_scalar in (np.float32(0.3), np.array(0.3)):
        assert len(jax.tree.leaves(JITScalarMatrix(0.5, numpy_scalar, np.int64(7), shape=(30, 20)))) == 1


def test_unflattening_never_validates():
    for leaf in (None, object(), "a", jnp.ones(3)):
        A = jax.tree.map(lambda _, leaf=leaf: leaf, W)
        assert A.weight is leaf
        jax.tree.structure(A)
    leaves, structure = jax.tree.flatten(JITScalarMatrix(0.5, jnp.float32(0.3), jnp.int32(7), shape=(30, 20)))
    for filler in (None, object(), jax.ShapeDtypeStruct((), jnp.float32)):
        jax.tree.unflatten(structure, [filler] * len(leaves))
    assert jax.eval_shape(lambda A: A @ x, W).shape == (30,)


@pytest.mark.parametrize("seed", [7, jnp.int32(7)])
def test_a_gradient_step_leaves_seed_and_prob_as_they_were(seed):
    A = JITScalarMatrix(0.5, 0.3, seed, shape=(30, 20))
    loss = lambda w, A: ((A.with_data(w) @ x) ** 2).sum()
    if isinstance(seed, int):
        gradient = jax.grad(lambda A: ((A @ x) ** 2).sum())(A)
        stepped = jax.tree.map(lambda a, g: a - 1e-3 * g, A, gradient)
        assert (stepped.seed, stepped.prob, stepped.shape) == (7, 0.3, (30, 20))
        np.testing.assert_allclose(gradient.data, jax.grad(loss)(A.data, A), rtol=1e-6)
    else:
        stepped = A.with_data(A.data - 1e-3 * jax.grad(loss)(A.data, A))
    assert stepped.data != A.data
    np.testing.assert_array_equal(np.asarray(stepped.todense()) != 0, np.asarray(A.todense()) != 0)


@pytest.mark.parametrize(
    "matrix",
    [
        W,
        W.T,
        W * 2,
        JITScalarMatrix(1 + 2j, 0.3, jnp.int32(7), shape=(30, 20), backend=COMPILED),
        W.astype(jnp.bfloat16),
    ],
    ids=repr,
)
def test_matrices_are_pickled_and_copied(matrix):
    for again in (pickle.loads(pickle.dumps(matrix)), copy.copy(matrix), copy.deepcopy(matrix), matrix.copy()):
        assert same(again, matrix)
        assert jax.tree.structure(again) == jax.tree.structure(matrix)
    matrix.todense()  # fills caches, which no pickle takes along
    assert len(pickle.dumps(matrix)) < 2000


def test_the_hash_is_that_of_the_structure():
    again = JITScalarMatrix(2.0, 0.3, 7, shape=(30, 20))
    assert hash(again) == hash(W)
    assert len({hash(A) for A in (W, W.T, JITScalarMatrix(0.5, 0.3, 8, shape=(30, 20)))}) == 3


def test_the_repr_says_what_the_matrix_is():
    assert repr(W) == "JITScalarMatrix(weight=0.5, prob=0.3, seed=7, shape=(30, 20), corder=False)"
    assert same(eval(repr(W)), W)
    assert "backend='numba'" in repr(JITScalarMatrix(0.5, 0.3, 7, shape=(3, 2), backend="numba"))
    assert "seed=data" in repr(JITScalarMatrix(0.5, 0.3, jnp.int32(7), shape=(3, 2)))
    shown = []
    jax.jit(lambda W: shown.append(repr(W)))(W)
    assert "shape=(30, 20)" in shown[0]
    assert "shape=(30, 20)" in repr(jax.tree.map(lambda _: None, W))


def test_a_program_is_traced_again_for_another_python_seed_only():
    traces = []

    @jax.jit
    def product(W):
        traces.append(None)
        return W @ x

    for weight in (0.5, 1.5):
        product(JITScalarMatrix(jnp.float32(weight), 0.3, 7, shape=(30, 20)))
    assert len(traces) == 1
    product(JITScalarMatrix(jnp.float32(1), 0.3, 8, shape=(30, 20)))
    assert len(traces) == 2
    for seed in (1, 2, 3):
        product(JITScalarMatrix(jnp.float32(1), 0.3, jnp.int32(seed), shape=(30, 20)))
    assert len(traces) == 3


def test_spikes_are_a_pytree():
    s = Spikes(jnp.array([0.5, -1, 0]))
    assert same_spikes(jax.tree.map(lambda z: z, s), s)
    assert s.shape == (3,)
    assert s.ndim == 1
    assert s.dtype == jnp.float32
    np.testing.assert_array_equal(jax.jit(lambda W, s: W @ s)(W, Spikes(x)), W @ (x > 0))


def same_spikes(a, b):
    return (a.value == b.value).all()

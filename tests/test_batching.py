"""Under `vmap` every product is the stack of the single products, to the bit where events are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import operand

import jitmat
from jitmat import JITScalarMatrix, Spikes, XLACustomKernel, general_batching_rule

SHAPE = (30, 20)
W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
P = 0.5 * reference.pattern(SHAPE, 0.3, 7)

PRODUCTS = {
    "W @ x": (lambda A, z: A @ z, (20,)),
    "x @ W": (lambda A, z: z @ A, (30,)),
    "W @ X": (lambda A, z: A @ z, (20, 3)),
    "X @ W": (lambda A, z: z @ A, (3, 30)),
    "W.T @ x": (lambda A, z: A.T @ z, (30,)),
    "W @ Spikes(x)": (lambda A, z: A @ Spikes(z), (20,)),
}


def stacked(function, *lists):
    return np.stack([np.asarray(function(*items)) for items in zip(*lists, strict=True)])


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_operands_are_batched_along_every_axis(name, dtype):
    function, shape = PRODUCTS[name]
    batch = operand((5, *shape), dtype)
    expected = stacked(lambda z: function(W, z), batch)
    for axis in range(len(shape) + 1):
        for out_axis in (0, 1, -1):
            moved = np.moveaxis(batch, 0, axis)
            found = jax.vmap(lambda z: function(W, z), in_axes=axis, out_axes=out_axis)(moved)
            np.testing.assert_array_equal(np.moveaxis(found, out_axis, 0), expected)


@pytest.mark.parametrize("name", PRODUCTS)
def test_weights_are_batched(name):
    function, shape = PRODUCTS[name]
    z, weights = operand(shape, "float32"), np.float32([0.5, -1, 2])
    expected = stacked(lambda w: function(W.with_data(w), z), weights)
    np.testing.assert_array_equal(jax.vmap(lambda w: function(W.with_data(w), z))(weights), expected)
    both = np.stack([z, -z, 2 * z])
    expected = stacked(lambda w, z: function(W.with_data(w), z), weights, both)
    np.testing.assert_array_equal(jax.vmap(lambda w, z: function(W.with_data(w), z))(weights, both), expected)


@pytest.mark.parametrize("name", ["W @ x", "x @ W", "W @ X", "W @ Spikes(x)"])
def test_array_seeds_are_batched(name):
    function, shape = PRODUCTS[name]
    z, seeds = operand(shape, "float32"), [7, -1, 5]
    expected = stacked(lambda s: function(JITScalarMatrix(0.5, 0.3, s, shape=SHAPE), z), seeds)
    ensemble = lambda s, z: function(JITScalarMatrix(0.5, 0.3, s, shape=SHAPE), z)
    np.testing.assert_array_equal(jax.vmap(ensemble, (0, None))(jnp.array(seeds), z), expected)
    both = np.stack([z, 2 * z, -z])
    expected = stacked(lambda s, z: function(JITScalarMatrix(0.5, 0.3, s, shape=SHAPE), z), seeds, both)
    np.testing.assert_array_equal(jax.vmap(ensemble)(jnp.array(seeds), both), expected)


def test_keys_are_batched():
    keys = jax.random.split(jax.random.key(3), 4)
    z = operand(20, "bool")
    found = jax.vmap(lambda key: JITScalarMatrix(0.5, 0.3, key, shape=SHAPE) @ z)(keys)
    np.testing.assert_array_equal(found, stacked(lambda key: JITScalarMatrix(0.5, 0.3, key, shape=SHAPE) @ z, keys))


def test_probs_are_batched_and_traced():
    z, probs = operand(20, "float32"), jnp.array([0.0, 0.3, 0.7, 1.0], jnp.float32)
    single = lambda p: JITScalarMatrix(0.5, p, 7, shape=SHAPE) @ z
    expected = stacked(lambda p: single(float(p)), probs)
    np.testing.assert_array_equal(jax.jit(single)(probs[1]), expected[1])
    np.testing.assert_array_equal(jax.vmap(single)(probs), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(single))(probs), expected)
    np.testing.assert_array_equal(jax.lax.map(single, probs), expected)
    by_function = lambda p: jitmat.jitsmv(0.5, p, z, 7, shape=SHAPE, corder=False)
    np.testing.assert_array_equal(jax.vmap(by_function)(probs), expected)


@pytest.mark.parametrize("name", ["W @ x", "x @ W", "W @ X"])
def test_stacks_of_matrices_are_batched(name):
    function, shape = PRODUCTS[name]
    z = operand(shape, "float32")
    Ws = [JITScalarMatrix(w, 0.3, s, shape=SHAPE) for w, s in ((0.5, 7), (2.0, -7), (1.0, 2**64 - 1))]
    stack = JITScalarMatrix.stack(Ws)
    expected = stacked(lambda A: function(A, z), Ws)
    np.testing.assert_array_equal(jax.vmap(lambda A: function(A, z))(stack), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda A: function(A, z)))(stack), expected)
    again = JITScalarMatrix.stack(
        [JITScalarMatrix(A.data, 0.3, jnp.array(s), shape=SHAPE) for A, s in zip(Ws[:2], (7, -7))]
    )
    np.testing.assert_array_equal(jax.vmap(lambda A: function(A, z))(again), expected[:2])


def test_dense_forms_and_transposes_of_a_stack_are_batched():
    Ws = [JITScalarMatrix(0.5, 0.3, s, shape=SHAPE) for s in (1, 2)]
    stack = JITScalarMatrix.stack(Ws)
    np.testing.assert_array_equal(jax.vmap(lambda A: A.todense())(stack), stacked(lambda A: A.todense(), Ws))
    np.testing.assert_array_equal(jax.vmap(lambda A: A.T.todense())(stack), stacked(lambda A: A.T.todense(), Ws))


def test_batches_nest():
    batch = operand((4, 5, 20), "float32")
    expected = batch @ P.T
    twice = jax.vmap(jax.vmap(lambda z: W @ z))
    np.testing.assert_array_equal(twice(batch), expected)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(lambda z: W @ z), 2)(batch.transpose(1, 2, 0)), expected)
    seeds, weights = jnp.array([7, 8]), jnp.float32([0.5, 1, 2])
    all_three = lambda s: jax.vmap(lambda w: jax.vmap(lambda z: JITScalarMatrix(w, 0.3, s, shape=SHAPE) @ z)(batch[0]))
    found = jax.vmap(lambda s: all_three(s)(weights))(seeds)
    assert found.shape == (2, 3, 5, 30)
    np.testing.assert_array_equal(found[0, 2], 4 * batch[0] @ P.T)


def test_gradients_are_batched_and_batches_have_gradients():
    batch = operand((5, 20), "float32").astype(np.float32)
    loss = lambda A, z: jnp.sum((A @ z) ** 2)
    found = jax.vmap(jax.grad(loss), (None, 0))(W, batch)
    expected = [jax.grad(loss)(W, z).data for z in batch]
    np.testing.assert_allclose(found.data, expected, rtol=1e-6)
    total = jax.grad(lambda A: jax.vmap(lambda z: loss(A, z))(batch).sum())(W)
    np.testing.assert_allclose(total.data, np.sum(expected), rtol=1e-5)
    by_seed = jax.vmap(jax.grad(lambda w, s: jnp.sum(JITScalarMatrix(w, 0.3, s, shape=SHAPE) @ batch[0])), (None, 0))
    seeds = [7, 9]
    expected = [(reference.pattern(SHAPE, 0.3, s) @ batch[0]).sum() for s in seeds]
    np.testing.assert_allclose(by_seed(jnp.float32(0.5), jnp.array(seeds)), expected, rtol=1e-6)


def test_empty_batches_and_empty_matrices_are_batched():
    assert jax.vmap(lambda z: W @ z)(np.zeros((0, 20), np.float32)).shape == (0, 30)
    assert jax.vmap(lambda z: W @ z)(np.zeros((0, 20), bool)).shape == (0, 30)
    thin = JITScalarMatrix(0.5, 0.3, 7, shape=(30, 0))
    for dtype in ("float32", "bool", "complex64"):
        np.testing.assert_array_equal(jax.vmap(lambda z: thin @ z)(np.zeros((5, 0), dtype)), np.zeros((5, 30)))
        np.testing.assert_array_equal(jax.vmap(lambda z: thin @ z)(np.zeros((5, 0, 2), dtype)), np.zeros((5, 30, 2)))
    assert jax.vmap(lambda z: thin.T @ z)(np.zeros((5, 30), np.float32)).shape == (5, 0)


def test_products_work_inside_scan_cond_switch_while_and_without_jit():
    A = JITScalarMatrix(0.5, 0.3, 7, shape=(20, 20))
    Q, z = 0.5 * reference.pattern((20, 20), 0.3, 7), operand(20, "float32")
    step = lambda z, _: ((A @ z > 1).astype(np.float32), A @ z)
    last, trace = jax.lax.scan(step, z, None, length=3)
    expected = z
    for row in trace:
        np.testing.assert_array_equal(row, Q @ expected)
        expected = (Q @ expected > 1).astype(np.float32)
    np.testing.assert_array_equal(last, expected)
    for flag in (True, False):
        found = jax.lax.cond(flag, lambda z: A @ z, lambda z: z @ A, z)
        np.testing.assert_array_equal(found, Q @ z if flag else z @ Q)
    found = jax.vmap(lambda flag: jax.lax.cond(flag, lambda z: A @ z, lambda z: z @ A, z))(np.array([True, False]))
    np.testing.assert_array_equal(found, [Q @ z, z @ Q])
    found = jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, A @ (c[1] > 0)), (0, z))[1]
    np.testing.assert_array_equal(found, Q @ (Q @ (z > 0) > 0))
    with jax.disable_jit():
        np.testing.assert_array_equal(A @ z, Q @ z)
        np.testing.assert_array_equal(jax.vmap(lambda z: A @ z)(np.stack([z, -z])), [Q @ z, -(Q @ z)])
        np.testing.assert_array_equal(jax.jit(lambda z: A @ z)(z), Q @ z)


def test_the_general_rule_scans_what_is_mapped_and_binds_once_when_nothing_is():
    scaled_p = XLACustomKernel("scaled")
    scaled_p.def_jax_kernel(lambda **params: lambda a, x: [a * x])
    a, x = jnp.float32(3), jnp.arange(6.0).reshape(3, 2)
    params = {"outs": (jax.ShapeDtypeStruct((3, 2), jnp.float32),), "backend": None}
    (once,), axes = general_batching_rule(scaled_p, (a, x), (None, None), **params)
    assert axes == [None]
    np.testing.assert_array_equal(once, 3 * x)
    params = {"outs": (jax.ShapeDtypeStruct((3,), jnp.float32),), "backend": None}
    (stack,), axes = general_batching_rule(scaled_p.primitive, (a, x), (None, 1), **params)
    assert axes == [0]
    np.testing.assert_array_equal(stack, 3 * x.T)
    by_default = jax.vmap(lambda x: scaled_p(a, x, outs=[jax.ShapeDtypeStruct((3,), jnp.float32)])[0], 1)
    np.testing.assert_array_equal(by_default(x), 3 * x.T)

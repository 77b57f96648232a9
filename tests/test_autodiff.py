"""Products are linear in the weight and in the operand, to any order of differentiation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.test_util import check_grads

import jitmat
from jitmat import JITScalarMatrix, Spikes

SHAPE = (30, 20)
P = reference.pattern(SHAPE, 0.3, 7).astype(np.float32)
W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
rng = np.random.default_rng(0)
x, X = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in (20, (20, 3)))
y, Y = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in (30, (2, 30)))

close = functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)


def with_weight(weight):
    return W.with_data(weight)


PRODUCTS = {
    "W @ x": (lambda A, z: A @ z, x),
    "W @ X": (lambda A, z: A @ z, X),
    "y @ W": (lambda A, z: z @ A, y),
    "Y @ W": (lambda A, z: z @ A, Y),
    "W.T @ y": (lambda A, z: A.T @ z, y),
}


@pytest.fixture(params=PRODUCTS, ids=str)
def product(request):
    return PRODUCTS[request.param]


def test_float_products_are_differentiable_to_second_order(product):
    function, z = product
    check_grads(lambda w, z: function(with_weight(w), z), (jnp.float32(0.5), z), order=2, atol=0.05, rtol=0.05)


def test_float_products_of_plain_jax_are_differentiable():
    A = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE, backend="jax")
    check_grads(lambda w, z: A.with_data(w) @ z, (jnp.float32(0.5), x), order=1, atol=0.05, rtol=0.05)


def test_binary_products_are_differentiable_in_the_weight_to_second_order(product):
    function, z = product
    check_grads(lambda w: function(with_weight(w), z > 0), (jnp.float32(0.5),), order=2, atol=0.05, rtol=0.05)
    check_grads(lambda w: function(with_weight(w), Spikes(z)), (jnp.float32(0.5),), order=2, atol=0.05, rtol=0.05)


def test_a_binary_product_has_the_derivative_of_the_float_product_in_its_operand(product, monkeypatch):
    monkeypatch.setattr(jitmat.config, "deterministic", True)
    function, z = product
    tangent = jnp.asarray(rng.normal(size=z.shape), jnp.float32)
    _, by_float = jax.jvp(lambda z: function(W, z), (z,), (tangent,))
    out, by_events = jax.jvp(lambda z: function(W, Spikes(z)), (z,), (tangent,))
    np.testing.assert_array_equal(by_events, by_float)
    np.testing.assert_array_equal(out, function(W, z > 0))
    cotangent = jnp.asarray(rng.normal(size=out.shape), jnp.float32)
    (by_float,) = jax.vjp(lambda z: function(W, z), z)[1](cotangent)
    (by_events,) = jax.vjp(lambda z: function(W, Spikes(z)), z)[1](cotangent)
    np.testing.assert_array_equal(by_events, by_float)
    by_float, by_events = (
        jax.linearize(lambda z, f=f: function(W, f(z)), z)[1](tangent) for f in (lambda z: z, Spikes)
    )
    np.testing.assert_array_equal(by_events, by_float)


def test_the_gradient_is_the_dense_one():
    loss = lambda A, z: jnp.sum(jnp.sin(A @ z))
    by_matrix = jax.grad(loss, argnums=(0, 1))(W, x)
    close(by_matrix[1], jax.grad(loss, argnums=1)(jnp.float32(0.5) * P, x))
    close(by_matrix[0].data, jax.grad(lambda w: loss(w * P, x))(jnp.float32(0.5)))


def test_jacobians_are_the_dense_matrix(product):
    for jacobian in (jax.jacfwd, jax.jacrev):
        close(jacobian(lambda z: W @ z)(x), 0.5 * P)
        close(jacobian(lambda z: z @ W)(y), 0.5 * P.T)
        np.testing.assert_array_equal(jacobian(lambda z: W @ Spikes(z))(x), jacobian(lambda z: W @ z)(x))
        close(jacobian(lambda w: with_weight(w) @ x)(jnp.float32(0.5)), P @ x)


def test_a_hessian_of_a_quadratic_form_is_right():
    form = lambda z: jnp.sum((W @ z) ** 2)
    close(jax.hessian(form)(x), 2 * 0.25 * P.T @ P)
    close(jax.grad(jax.grad(lambda w: jnp.sum((with_weight(w) @ x) ** 2)))(jnp.float32(0.5)), 2 * np.sum((P @ x) ** 2))
    mixed = jax.grad(lambda w: jax.grad(lambda z: jnp.sum((with_weight(w) @ z) ** 2))(x).sum())
    close(mixed(jnp.float32(0.5)), 4 * 0.5 * np.sum(P.T @ (P @ x)))


def test_the_transpose_of_a_product_is_the_product_with_the_transpose():
    (by_rule,) = jax.linear_transpose(lambda z: W @ z, x)(y)
    np.testing.assert_array_equal(by_rule, W.T @ y)
    (by_rule,) = jax.linear_transpose(lambda z: z @ W, y)(x)
    np.testing.assert_array_equal(by_rule, W @ x)
    (by_rule,) = jax.linear_transpose(lambda w: with_weight(w) @ x, jnp.float32(0))(y)
    close(by_rule, y @ P @ x)
    twice = jax.linear_transpose(lambda c: jax.linear_transpose(lambda z: W @ z, x)(c)[0], y)
    np.testing.assert_array_equal(twice(x)[0], W @ x)


@pytest.mark.parametrize("name", ["jitsmv", "jitsmm", "binary_jitsmv", "binary_jitsmm"])
@pytest.mark.parametrize("transpose", [False, True])
def test_functions_are_differentiable_in_weight_and_operand(name, transpose):
    z = {False: {"v": x, "m": X}, True: {"v": y, "m": Y.T}}[transpose][name[-1]]
    function = lambda w, z: getattr(jitmat, name)(w, 0.3, z, 7, shape=SHAPE, transpose=transpose, corder=transpose)
    Q = P.T if transpose else P
    active = np.asarray((z > 0).astype(jnp.float32) if name.startswith("binary") else z)
    out, vjp = jax.vjp(function, jnp.float32(0.5), z)
    close(out, 0.5 * Q @ active)
    to_weight, to_operand = vjp(jnp.ones_like(out))
    close(to_weight, (Q @ active).sum())
    close(to_operand, 0.5 * Q.T @ np.ones(out.shape, np.float32))


@pytest.mark.parametrize("dtype", [bool, jnp.int32, jnp.int8])
def test_booleans_and_integers_have_float0_tangents(dtype):
    events = (x > 0).astype(dtype)
    loss = lambda A, z: (A @ z).sum()
    gradient = jax.grad(loss)(W, events)
    close(gradient.data, (P @ np.float32(events)).sum())
    out, tangent = jax.jvp(loss, (W, events), (W, np.zeros(20, jax.dtypes.float0)))
    close(tangent, out)
    (by_matrix, by_events) = jax.vjp(loss, W, events)[1](jnp.ones_like(out))
    assert by_events.dtype == jax.dtypes.float0
    close(by_matrix.data, gradient.data)
    assert jax.grad(loss, argnums=1, allow_int=True)(W, events).dtype == jax.dtypes.float0


def test_a_real_weight_with_a_complex_operand_has_a_real_gradient():
    z = jnp.asarray(rng.normal(size=20) + 1j * rng.normal(size=20), jnp.complex64)
    loss = lambda w, z: jnp.sum(jnp.abs(with_weight(w) @ z) ** 2)
    to_weight, to_operand = jax.grad(loss, argnums=(0, 1))(jnp.float32(0.5), z)
    dense = lambda w, z: jnp.sum(jnp.abs(w * (P @ z)) ** 2)
    told = jax.grad(dense, argnums=(0, 1))(jnp.float32(0.5), z)
    assert to_weight.dtype == jnp.float32
    assert to_operand.dtype == jnp.complex64
    close(to_weight, told[0], rtol=1e-4)
    close(to_operand, told[1], rtol=1e-4, atol=1e-4)


def test_a_complex_weight_is_differentiable():
    z, w = x, jnp.complex64(0.5 - 0.25j)
    for operand in (x, x + 1j * x[::-1], x > 0):
        loss = lambda f, operand=operand: lambda w: jnp.sum(jnp.abs(f(w, operand)) ** 2)
        by_matrix = jax.grad(loss(lambda w, z: with_weight(w) @ z))(w)
        close(by_matrix, jax.grad(loss(lambda w, z: w * (P @ z)))(w), rtol=1e-4)
    close(jax.jacrev(lambda z: with_weight(w) @ z, holomorphic=True)(z.astype(jnp.complex64)), w * P)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_gradients_keep_the_dtype_of_what_they_belong_to(dtype):
    with jax.enable_x64(dtype == "float64"):
        dtype = jnp.dtype(dtype)
        weight, operand = jnp.ones((), dtype), jnp.ones(20, dtype)
        to_weight, to_operand = jax.grad(lambda w, z: (with_weight(w) @ z).sum(), argnums=(0, 1))(weight, operand)
        assert to_weight.dtype == to_operand.dtype == dtype
        np.testing.assert_array_equal(to_operand.astype(float), P.sum(axis=0))
        assert float(to_weight) == P.sum()


def test_derivatives_work_inside_scan_cond_checkpoint_and_without_jit():
    A = JITScalarMatrix(0.05, 0.3, 7, shape=(20, 20))
    Q = jnp.asarray(reference.pattern((20, 20), 0.3, 7), jnp.float32)

    def run(multiply, w, z):
        step = lambda z, _: (jnp.tanh(multiply(w, z)), None)
        return jax.lax.scan(step, z, None, length=4)[0].sum()

    by_matrix = lambda w, z: A.with_data(w) @ z
    told = jax.grad(lambda w, z: run(lambda w, z: w * Q @ z, w, z), argnums=(0, 1))(jnp.float32(0.05), x)
    by_branch = lambda w, z: jax.lax.cond(z.sum() > 1e9, lambda z: z, lambda z: by_matrix(w, z), z)
    for multiply in (by_matrix, by_branch, jax.checkpoint(by_matrix)):
        found = jax.grad(functools.partial(run, multiply), argnums=(0, 1))(jnp.float32(0.05), x)
        jax.tree.map(functools.partial(close, rtol=1e-4), found, told)
    with jax.disable_jit():
        found = jax.grad(functools.partial(run, by_matrix), argnums=(0, 1))(jnp.float32(0.05), x)
        jax.tree.map(functools.partial(close, rtol=1e-4), found, told)
        np.testing.assert_array_equal(A @ (x > 0), np.float32(0.05) * (Q @ (x > 0)))


def test_seed_and_prob_have_no_gradient_of_their_own():
    gradient = jax.grad(lambda A: (A @ x).sum())(W)
    assert isinstance(gradient, JITScalarMatrix)
    assert (gradient.seed, gradient.prob, gradient.shape) == (W.seed, W.prob, W.shape)
    by_prob = jax.grad(lambda p: (JITScalarMatrix(0.5, p, 7, shape=SHAPE) @ x).sum())(jnp.float32(0.3))
    assert by_prob == 0.0
    array_seed = JITScalarMatrix(0.5, 0.3, jnp.array(7), shape=SHAPE)
    by_data = jax.grad(lambda w: (array_seed.with_data(w) @ x).sum())(jnp.float32(0.5))
    close(by_data, (P @ x).sum())

"""Units multiply like the numbers that carry them, and are never dropped in silence."""

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import jitmat
from jitmat import JITScalarMatrix, Spikes

SHAPE = (30, 20)
P = reference.pattern(SHAPE, 0.3, 7).astype(np.float32)
W = JITScalarMatrix(0.5 * u.mS, 0.3, 7, shape=SHAPE)
PLAIN = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
x, y = jnp.arange(20.0), jnp.arange(30.0)


def check(quantity, mantissa, unit):
    assert isinstance(quantity, u.Quantity)
    assert u.get_unit(quantity).has_same_dim(unit)
    np.testing.assert_allclose(u.get_mantissa(quantity.to(unit)), mantissa, rtol=1e-6)


def test_units_of_both_sides_multiply():
    check(W @ (x * u.mV), 0.5 * P @ x, u.mS * u.mV)
    check((y * u.mV) @ W, 0.5 * y @ P, u.mS * u.mV)
    check(W.T @ (y * u.mV), 0.5 * y @ P, u.mS * u.mV)
    check(W @ x, 0.5 * P @ x, u.mS)
    check(y @ W, 0.5 * y @ P, u.mS)
    check(np.asarray(y) @ W, 0.5 * y @ P, u.mS)
    check(PLAIN @ (x * u.mV), 0.5 * P @ x, u.mV)
    check((y * u.mV) @ PLAIN, 0.5 * y @ P, u.mV)
    check(W @ (jnp.stack([x, x], 1) * u.mV), 0.5 * P @ jnp.stack([x, x], 1), u.mS * u.mV)
    check((jnp.stack([y, y]) * u.mV) @ W, 0.5 * jnp.stack([y, y]) @ P, u.mS * u.mV)


def test_events_have_the_unit_of_the_weight():
    events = x > 7
    check(W @ events, 0.5 * P @ events, u.mS)
    check(W @ Spikes(x - 7), 0.5 * P @ events, u.mS)
    check(jitmat.binary_jitsmv(0.5 * u.mS, 0.3, events, 7, shape=SHAPE, corder=False), 0.5 * P @ events, u.mS)


def test_units_that_cancel_leave_a_bare_array():
    product = W @ (x / u.mS)
    assert not isinstance(product, u.Quantity)
    np.testing.assert_allclose(product, 0.5 * P @ x, rtol=1e-6)


def test_functions_carry_units():
    check(jitmat.jitsmv(0.5 * u.mS, 0.3, x * u.mV, 7, shape=SHAPE, corder=False), 0.5 * P @ x, u.mS * u.mV)
    check(jitmat.jits(0.5 * u.mS, 0.3, 7, shape=SHAPE, corder=False), 0.5 * P, u.mS)
    data, _, _ = jitmat.jits_to_csr(0.5 * u.mS, 0.3, 7, shape=SHAPE, corder=False)
    check(data, np.full(int(P.sum()), 0.5), u.mS)


def test_arithmetic_keeps_units():
    check((2 * W).data, 1.0, u.mS)
    check((PLAIN * u.mS).data, 0.5, u.mS)
    check((PLAIN * (2 * u.mS)).data, 1.0, u.mS)
    check((W + W).data, 1.0, u.mS)
    check((-W).data, -0.5, u.mS)
    check((W / u.mS * u.mV).data, 0.5, u.mV)
    check(abs(-W).data, 0.5, u.mS)
    check(W.astype(jnp.float16).data, 0.5, u.mS)
    check(W.H.data, 0.5, u.mS)
    with pytest.raises(Exception, match="mS"):
        W + PLAIN


def test_dense_and_stored_forms_never_drop_a_unit():
    check(W.todense(), 0.5 * P, u.mS)
    with pytest.raises(ValueError, match="unit="):
        W.tocsr()
    for method in ("tocsr", "tocsc", "tocoo"):
        np.testing.assert_allclose(getattr(W, method)(unit=u.uS).toarray(), 500 * P, rtol=1e-6)
    for method in ("to_bcsr", "to_bcoo"):
        np.testing.assert_allclose(getattr(W, method)(unit=u.uS).todense(), 500 * P, rtol=1e-6)


def test_units_pass_through_scan_grad_jit_and_vmap():
    A = JITScalarMatrix(0.05 * u.mS, 0.3, 7, shape=(20, 20))
    Q = 0.05 * reference.pattern((20, 20), 0.3, 7)
    step = lambda v, _: (v + A @ v / u.mS, None)
    last, _ = jax.lax.scan(step, x * u.mV, None, length=3)
    check(last, np.linalg.matrix_power(np.eye(20) + Q, 3) @ np.asarray(x), u.mV)
    loss = lambda W, z: u.get_mantissa((W @ z).sum())
    by_matrix, by_operand = jax.grad(loss, argnums=(0, 1))(W, x * u.mV)
    np.testing.assert_allclose(u.get_mantissa(by_matrix.data), (P @ x).sum(), rtol=1e-6)
    np.testing.assert_allclose(u.get_mantissa(by_operand), 0.5 * P.sum(axis=0), rtol=1e-6)
    check(jax.jit(lambda W, z: W @ z)(W, x * u.mV), 0.5 * P @ x, u.mS * u.mV)
    batch = jnp.stack([x, 2 * x]) * u.mV
    check(jax.vmap(lambda z: W @ z)(batch), 0.5 * jnp.stack([x, 2 * x]) @ P.T, u.mS * u.mV)
    by_weight = u.autograd.grad(lambda w: (W.with_data(w) @ (x * u.mV)).sum())(0.5 * u.mS)
    check(by_weight, (P @ x).sum(), u.mV)

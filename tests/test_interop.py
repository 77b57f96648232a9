"""jitmat beside brainevent, saiunit and brainstate: their event arrays, units and states work with its matrices."""

import subprocess
import sys

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from jitmat import JITScalarMatrix, Spikes, binary_jitsmv

SHAPE = (30, 20)
P = reference.pattern(SHAPE, 0.3, 7).astype(np.float32)
W = JITScalarMatrix(0.5, 0.3, 7, shape=SHAPE)
x, y = jnp.arange(20.0) - 5, jnp.arange(30.0) - 5  # active from the seventh on


@pytest.fixture
def brainevent():
    return pytest.importorskip("brainevent", reason="brainevent 0.3 takes Python 3.12 or later")


@pytest.fixture
def brainstate():
    return pytest.importorskip("brainstate", reason="brainstate comes beside brainevent")


def test_a_binary_array_is_events_on_either_side(brainevent):
    events = brainevent.BinaryArray
    right, left = jnp.stack([x, -x], 1), jnp.stack([y, -y])
    for found, expected in [
        (W @ events(x), P @ (x > 0)),
        (W @ events(x > 0), P @ (x > 0)),
        (W @ events(right), P @ (right > 0)),
        (events(y) @ W, (y > 0) @ P),
        (events(left) @ W, (left > 0) @ P),
        (W.T @ events(y), (y > 0) @ P),
        (binary_jitsmv(0.5, 0.3, events(x), 7, shape=SHAPE, corder=False), P @ (x > 0)),
        (jax.jit(lambda b: W @ b)(events(x)), P @ (x > 0)),
        (jax.vmap(lambda b: W @ b)(events(right.T)), (right.T > 0) @ P.T),
    ]:
        assert isinstance(found, jax.Array)
        np.testing.assert_array_equal(found, 0.5 * expected)


def test_a_binary_array_takes_the_binary_path(brainevent):
    for product in (lambda z: W @ brainevent.BinaryArray(z), lambda z: brainevent.BinaryArray(z) @ W.T):
        assert "binary_jitsmv" in str(jax.make_jaxpr(product)(x))
        np.testing.assert_array_equal(jax.grad(lambda z, product=product: product(z).sum())(x), 0.5 * P.sum(0))


def test_brainevents_other_wrappers_are_events_or_numbers(brainevent):
    for wrap in (brainevent.BitPackedBinary, brainevent.CompactBinary.from_array, brainevent.BinaryArray):
        np.testing.assert_array_equal(W @ wrap(x > 0), 0.5 * P @ (x > 0))
        np.testing.assert_array_equal(wrap(jnp.where(y > 0, 3.0, 0.0)) @ W, 0.5 * (y > 0) @ P)
    for product, expected in [
        (W @ brainevent.WeightedArray(x), P @ x),
        (brainevent.WeightedArray(y) @ W, y @ P),
        (W @ brainevent.WeightedArray(x > 0), P @ (x > 0)),
    ]:
        np.testing.assert_array_equal(product, 0.5 * expected)


def test_a_binary_array_meets_units(brainevent):
    found = JITScalarMatrix(0.5 * u.mS, 0.3, 7, shape=SHAPE) @ brainevent.BinaryArray(x)
    assert u.get_unit(found) == u.mS
    np.testing.assert_array_equal(u.get_mantissa(found), 0.5 * P @ (x > 0))


def test_the_quantities_of_saiunit_are_those_of_brainunit():
    saiunit = pytest.importorskip("saiunit")
    mS, mV = saiunit.mS, saiunit.mV
    V = JITScalarMatrix(0.5 * mS, 0.3, 7, shape=SHAPE)
    for found, expected in [
        (V @ (x * mV), P @ x),
        ((y * mV) @ V, y @ P),
        (W @ (x * mV) * mS, P @ x),
        ((y * mV) @ W * mS, y @ P),
    ]:
        assert isinstance(found, saiunit.Quantity)
        np.testing.assert_allclose(found.to(mS * mV).mantissa, 0.5 * expected, rtol=1e-6)
    A = JITScalarMatrix(0.05 * mS, 0.3, 7, shape=(20, 20))
    Q = np.eye(20) + 0.05 * reference.pattern((20, 20), 0.3, 7)
    last, _ = jax.lax.scan(lambda v, _: (v + A @ v / mS, None), x * mV, None, length=3)
    np.testing.assert_allclose(last.to(mV).mantissa, np.linalg.matrix_power(Q, 3) @ np.asarray(x), rtol=1e-5)
    by_weight = saiunit.autograd.grad(lambda w: (V.with_data(w) @ (x * mV)).sum())(0.5 * mS)
    np.testing.assert_allclose(by_weight.to(mV).mantissa, (P @ x).sum(), rtol=1e-6)
    by_operand = saiunit.autograd.grad(lambda z: (V @ z).sum())(x * mV)
    np.testing.assert_allclose(by_operand.to(mS).mantissa, 0.5 * P.sum(0), rtol=1e-6)


def test_a_matrix_is_a_parameter_of_a_brainstate_model(brainstate):
    A = JITScalarMatrix(0.5, 0.3, 7, shape=(20, 20))
    Q, inputs = reference.pattern((20, 20), 0.3, 7), np.linspace(0, 1, 100, dtype=np.float32).reshape(5, 20)

    class Network(brainstate.nn.Module):
        def __init__(self):
            super().__init__()
            self.W = brainstate.ParamState(A)
            self.v = brainstate.HiddenState(jnp.ones(20))

        def update(self, current):
            self.v.value = 0.25 * self.v.value + self.W.value @ Spikes(self.v.value - 0.5) + current
            return self.v.value

    def expected(weight):
        v, trace = np.ones(20), []
        for current in inputs:
            v = 0.25 * v + weight * Q @ (v > 0.5) + current
            trace.append(v)
        return np.array(trace)

    network = Network()

    def run():
        network.v.value = jnp.ones(20)
        return brainstate.transform.for_loop(network.update, inputs)

    np.testing.assert_allclose(run(), expected(0.5), rtol=1e-5)
    np.testing.assert_allclose(brainstate.transform.jit(run)(), expected(0.5), rtol=1e-5)
    (by_matrix,) = brainstate.transform.grad(lambda: run()[0].sum(), network.states(brainstate.ParamState))().values()
    assert isinstance(by_matrix, JITScalarMatrix)
    np.testing.assert_allclose(by_matrix.data, Q.sum(), rtol=1e-5)
    network.W.value = jax.tree.map(lambda w, g: w - 1e-3 * g, network.W.value, by_matrix)
    assert network.W.value.seed == 7
    np.testing.assert_allclose(run(), expected(0.5 - 1e-3 * Q.sum()), rtol=1e-4)


def test_jitmat_needs_none_of_them():
    code = "import jitmat, sys; print([name for name in ('brainevent', 'brainstate') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

"""What is made inside a trace does not leak out of it, also where JAX gives no concrete array there."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np

from jitmat import JITScalarMatrix, jitsmv
from jitmat._constants import made_once


def test_a_first_product_inside_a_trace_leaves_nothing_of_it_behind(monkeypatch):
    monkeypatch.setattr(jax, "ensure_compile_time_eval", contextlib.nullcontext)  # as on some accelerators
    x = jnp.arange(33, dtype=jnp.float32)

    def multiply(x):
        return JITScalarMatrix(1.625, 0.2345, 987654, shape=(21, 33)) @ x + jitsmv(
            1.625, 0.2345, x, 987654, shape=(21, 33), corder=False
        )

    traced = jax.jit(jax.vmap(multiply))(jnp.stack([x, -x]))
    np.testing.assert_allclose(multiply(x), traced[0], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(multiply)(x), traced[0], rtol=1e-6)


def test_a_constant_is_made_once():
    made = []
    constant = made_once(lambda value: made.append(value) or np.float32(value))
    assert float(jax.jit(lambda: constant(2.0) + 1)()) == 3.0
    assert constant(2.0) is constant(2.0)
    assert made == [2.0]

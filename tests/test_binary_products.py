"""Binary products are exact: the weight times an integer count, whatever the backend, shape and orientation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import BACKENDS, SEEDS

import jitmat
from jitmat import JITScalarMatrix, Spikes

WEIGHTS = [0.1, -1 / 3, np.float16(0.1), jnp.bfloat16(0.1), 3, np.float64(0.1), 0.1 - 0.7j]


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("prob", [0.003, 0.3, 0.99])
def test_events_give_the_weight_times_the_count(corder, prob, x64):
    """P as int64 ones counts; the weight multiplies once, in the result's dtype."""
    rng, shape = np.random.default_rng(0), (513, 1000)
    for seed, weight in zip((*SEEDS, 5, 6), WEIGHTS, strict=True):
        W, P = (
            JITScalarMatrix(weight, prob, seed, shape=shape, corder=corder),
            reference.pattern(shape, prob, seed, corder),
        )
        for active in (0.0, 0.02, 0.5, 1.0):
            s, S = rng.random(1000) < active, rng.random((1000, 3)) < active
            for y, count in ((W @ s, P.astype(np.int64) @ s), (W @ S, P.astype(np.int64) @ S)):
                assert y.dtype == W.data.dtype
                np.testing.assert_array_equal(y, times(W.data, count))
            s = rng.random(513) < active
            np.testing.assert_array_equal(s @ W, times(W.data, s @ P.astype(np.int64)))


def times(weight, count):
    """weight * count, halves by way of float32."""
    weight = np.asarray(weight)
    wide = weight.astype(np.float32) if weight.dtype.itemsize == 2 else weight
    return (wide * count.astype(wide.real.dtype)).astype(weight.dtype)


def test_both_backends_count_alike():
    shape = (70, 1000)
    events = np.random.default_rng(0).random((1000, 2)) < 0.1
    for corder in (False, True):
        by_backend = [
            np.asarray(JITScalarMatrix(0.1, 0.3, 5, shape=shape, corder=corder, backend=backend) @ events)
            for backend in BACKENDS
        ]
        np.testing.assert_array_equal(*by_backend)


def test_activity_is_above_zero_for_floats_and_nonzero_for_the_rest():
    values = np.array([-2, -1, 0, 1, 2])
    W = JITScalarMatrix(1, 1.0, 0, shape=(3, 5))
    for dtype in ("int8", "int32", "uint8", "float16", "bfloat16", "float32"):
        x = jnp.asarray(values.astype(np.int8)).astype(dtype)
        active = (x > 0) if jnp.issubdtype(x.dtype, jnp.floating) else (x != 0)
        expected = np.full(3, int(active.sum()))
        np.testing.assert_array_equal(W @ Spikes(x), expected)
        np.testing.assert_array_equal(jitmat.binary_jitsmv(1, 1.0, x, 0, shape=(3, 5)), expected)
        np.testing.assert_array_equal(W @ Spikes(x[:, None]), expected[:, None])


def test_counts_do_not_saturate_beyond_a_float32():
    """More than 2^24 active entries of one row: an integer count is exact where a float sum sticks."""
    n = 2**24 + 5
    for corder in (False, True):
        with jax.enable_x64(True):
            W = JITScalarMatrix(1, 1.0, 0, shape=(1, n), corder=corder)
            assert (W @ np.ones(n, bool)).item() == n


def test_counts_are_exact_in_every_run_and_under_jit_and_vmap():
    W = JITScalarMatrix(0.1, 0.1, 5, shape=(3000, 3000))
    s = np.random.default_rng(0).random(3000) < 0.1
    expected = np.float32(0.1) * (reference.pattern((3000, 3000), 0.1, 5).astype(np.int64) @ s).astype(np.float32)
    for _ in range(10):
        np.testing.assert_array_equal(W @ s, expected)
    np.testing.assert_array_equal(jax.jit(lambda s: W @ s)(s), expected)
    np.testing.assert_array_equal(jax.vmap(lambda s: W @ s)(np.stack([s, ~s, s]))[2], expected)

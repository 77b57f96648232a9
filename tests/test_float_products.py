"""Float products are accurate to the rounding of their sums, and the same bits in every run on any threads."""

import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from jitmat import JITScalarMatrix, Spikes

SHAPE, PROB, SEED = (700, 5000), 0.1, 13
P = {corder: reference.pattern(SHAPE, PROB, SEED, corder) for corder in (False, True)}


def matrix(corder, weight=0.3, backend=None):
    return JITScalarMatrix(weight, PROB, SEED, shape=SHAPE, corder=corder, backend=backend)


def check_rounding(y, weight, Q, x, eps):
    wide = np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    weight = float(np.asarray(weight, y.dtype).real)
    terms = int(Q.sum(axis=1).max()) + 2
    bound = abs(weight) * (Q @ np.abs(wide)) * terms * np.finfo(np.float32 if eps > 1e-10 else float).eps
    bound += eps * np.abs(weight * (Q @ wide))
    assert (np.abs(np.asarray(y).astype(wide.dtype) - weight * (Q @ wide)) <= bound).all()


EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53, "complex64": 2.0**-23}


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("corder", [False, True])
def test_sums_are_accurate_to_their_rounding(dtype, corder):
    with jax.enable_x64(dtype == "float64"):
        W, rng = matrix(corder, jnp.asarray(0.3, dtype)), np.random.default_rng(0)
        for A, Q in ((W, P[corder].astype(float)), (W.T, P[corder].T.astype(float))):
            for size in ((Q.shape[1],), (Q.shape[1], 3)):
                x = rng.normal(size=size) + (1j * rng.normal(size=size) if dtype == "complex64" else 0)
                x = jnp.asarray(x).astype(dtype)
                y = A @ x
                assert y.dtype == jnp.dtype(dtype)
                check_rounding(y, 0.3, Q, x, EPS[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_summed_in_single_precision(dtype):
    ones = jnp.ones(50_000, dtype)
    for corder in (False, True):
        row = JITScalarMatrix(1, 1.0, 0, shape=(2, 50_000), corder=corder)
        for y in (row @ ones, ones @ row.T, (row @ ones[:, None])[:, 0]):
            assert y.dtype == jnp.dtype(dtype)
            np.testing.assert_array_equal(y, jnp.full(2, 50_000, dtype))


def test_integers_wrap_and_promote_as_numpys_do():
    for weight, dtype in ((1, "int8"), (jnp.int8(1), "int8"), (jnp.uint8(1), "uint8"), (jnp.int16(3), "int16")):
        W = matrix(False, weight)
        x = np.full(SHAPE[1], 100, dtype)
        y = W @ x
        assert y.dtype == jnp.result_type(W.data, x)
        expected = np.asarray(weight) * (P[False] @ x.astype(np.int64))
        np.testing.assert_array_equal(y, expected.astype(y.dtype))
    with jax.enable_x64(True):
        huge = np.full(SHAPE[1], 2**53 + 1)
        np.testing.assert_array_equal(matrix(True, 1) @ huge, P[True] @ huge)


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_its_own_rows_alone(corder, bad):
    W = matrix(corder, 1.0)
    for A, Q in ((W, P[corder]), (W.T, P[corder].T)):
        for place in (0, 511, Q.shape[1] - 1):
            x = np.ones(Q.shape[1], np.float32)
            x[place] = bad
            for y in (A @ x, (A @ np.stack([x, np.ones_like(x), x], axis=1))[:, 0]):
                np.testing.assert_array_equal(np.isfinite(y), ~Q[:, place])
                np.testing.assert_array_equal(y[~Q[:, place]], Q.sum(axis=1)[~Q[:, place]])
    events = np.where(np.arange(SHAPE[1]) % 2, bad, 0).astype(np.float32)  # NaN is not above 0
    np.testing.assert_array_equal(W @ Spikes(events), P[corder].astype(np.int64) @ (events > 0))


@pytest.mark.parametrize("corder", [False, True])
def test_what_is_not_finite_reaches_no_further_in_a_dense_matrix(corder):
    Q = reference.pattern((60, 700), 0.9, 3, corder)
    for place in (0, 511, 699):
        x = np.ones(700, np.float32)
        x[place] = np.inf
        y = np.asarray(JITScalarMatrix(1.0, 0.9, 3, shape=(60, 700), corder=corder) @ x)
        np.testing.assert_array_equal(y, np.where(Q[:, place], np.inf, Q.sum(axis=1)))


@pytest.mark.parametrize("shape", [(0, 0), (0, 50), (50, 0), (1, 1), (50, 40)])
def test_outputs_are_written_where_nothing_is_drawn(shape, backend):
    """Buffers that held NaN before come back as zeros."""
    for corder in (False, True):
        W = JITScalarMatrix(1.0, 0.0, 0, shape=shape, corder=corder, backend=backend)
        product = jax.jit(lambda x, X, W=W: (W @ x, W @ X, W @ (x > 0), W.todense()))
        x, X = jnp.ones(shape[1]), jnp.ones((shape[1], 3))
        for _ in range(5):
            poison = [jnp.full(size, jnp.nan) + 1 for size in (shape[0], (shape[0], 3), shape, 64, 4096)]
            jax.block_until_ready(poison)
            del poison
            for y in product(x, X):
                assert (np.asarray(y) == 0).all()
        assert W.nnz == W.tocsr().nnz == 0


DIGESTS = """
import hashlib, jax, numpy as np
from jitmat import JITScalarMatrix
digest = hashlib.sha256()
x = np.random.default_rng(0).normal(size=3000).astype(np.float32)
X = np.random.default_rng(1).normal(size=(3000, 5)).astype(np.float32)
for corder in (False, True):
    W = JITScalarMatrix(0.3, 0.1, 5, shape=(3000, 3000), corder=corder)
    for z in (x, X, x > 1, X > 1):
        digest.update(np.asarray(W @ z).tobytes())
    digest.update(np.asarray(W.todense()).tobytes())
    digest.update(W.tocsr().indices.tobytes())
print(digest.hexdigest())
"""


def test_results_are_the_same_bits_on_any_number_of_threads_and_in_every_process():
    found = set()
    for threads in ("1", "2", "5"):
        environment = os.environ | {"NPROC": threads, "JAX_PLATFORMS": "cpu"}
        run = subprocess.run([sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        found.add(run.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("corder", [False, True])
def test_results_are_the_same_bits_in_every_run(corder):
    W = JITScalarMatrix(0.3, 0.1, 5, shape=(3000, 3000), corder=corder)
    x = np.random.default_rng(0).normal(size=3000).astype(np.float32)
    digests = {hashlib.sha256(np.asarray(W @ x).tobytes()).digest() for _ in range(50)}
    assert len(digests) == 1

"""Seeds are integers in [-2^63, 2^64) modulo 2^64, or keys: the same matrix however and wherever they are given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import jitmat
from jitmat import JITScalarMatrix

SHAPE = (60, 50)


def dense(seed):
    return np.asarray(JITScalarMatrix(1, 0.3, seed, shape=SHAPE).todense())


def expected(seed):
    return reference.pattern(SHAPE, 0.3, seed)


SEEDS = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**40 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1]


def test_python_seeds_are_taken_modulo_2_64(x64):
    for seed in SEEDS:
        np.testing.assert_array_equal(dense(seed), expected(seed % 2**64))
    np.testing.assert_array_equal(dense(-1), dense(2**64 - 1))
    assert (dense(0) != dense(2**32)).any()  # the high word counts


def test_numpy_seeds_are_the_integers_they_hold(x64):
    kinds = {np.int8: -5, np.uint8: 250, np.int32: -5, np.uint32: 2**32 - 5, np.int64: -(2**63), np.uint64: 2**64 - 1}
    for kind, value in kinds.items():
        np.testing.assert_array_equal(dense(kind(value)), expected(value))
        np.testing.assert_array_equal(dense(np.array(value, kind)), expected(value))


def test_jax_seeds_are_sign_extended(x64):
    for dtype, values in ((jnp.int32, (-1, 7, -(2**31))), (jnp.uint32, (2**32 - 1, 7)), (jnp.int8, (-3,))):
        for value in values:
            seed = jnp.array(value, dtype)
            np.testing.assert_array_equal(dense(seed), expected(value))
            np.testing.assert_array_equal(jax.jit(dense_in_jit)(seed), expected(value))


def dense_in_jit(seed):
    return JITScalarMatrix(1, 0.3, seed, shape=SHAPE).todense()


def test_64_bit_jax_seeds_keep_both_words():
    with jax.enable_x64(True):
        for dtype, value in ((jnp.int64, -1), (jnp.int64, -(2**63)), (jnp.int64, 2**40 + 1), (jnp.uint64, 2**64 - 1)):
            seed = jnp.array(value, dtype)
            np.testing.assert_array_equal(dense(seed), expected(value))
            np.testing.assert_array_equal(jax.jit(dense_in_jit)(seed), expected(value))


def test_a_key_gives_its_two_words(x64):
    key = jax.random.fold_in(jax.random.key(5), 7)
    high, low = (int(word) for word in jax.random.key_data(key))
    np.testing.assert_array_equal(dense(key), expected(high << 32 | low))
    np.testing.assert_array_equal(jax.jit(dense_in_jit)(key), expected(high << 32 | low))


def test_functions_take_the_same_seeds(x64):
    x = np.ones(50, bool)
    for seed in (-1, 2**64 - 1, np.int32(-1), jnp.int32(-1)):
        y = jitmat.binary_jitsmv(1, 0.3, x, seed, shape=SHAPE, corder=False)
        np.testing.assert_array_equal(y, expected(-1).sum(axis=1))


def test_no_seed_draws_one_and_shows_it():
    first, second = (JITScalarMatrix(1, 0.3, shape=SHAPE) for _ in range(2))
    assert isinstance(first.seed, int)
    assert first.seed != second.seed
    assert f"seed={first.seed}" in repr(first)
    np.testing.assert_array_equal(first.todense(), expected(first.seed))


def test_an_array_seed_survives_a_round_trip_through_jit_and_scan(x64):
    W = JITScalarMatrix(1, 0.3, jnp.int32(-1), shape=SHAPE)
    np.testing.assert_array_equal(jax.jit(lambda W: W)(W).todense(), expected(-1))
    carried, _ = jax.lax.scan(lambda W, _: (W * 1, None), W, None, length=3)
    np.testing.assert_array_equal(carried.todense(), expected(-1))


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 1.0, True, np.bool_(True), "1", np.float32(1), jnp.float32(1)])
def test_other_seeds_are_refused(seed):
    for make in (lambda: dense(seed), lambda: jitmat.jits(1, 0.3, seed, shape=SHAPE)):
        with pytest.raises((TypeError, ValueError), match="seed must"):
            make()

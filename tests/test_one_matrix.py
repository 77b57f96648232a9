"""One matrix: every view of (prob, seed, shape, corder) has the same entries, those of the definition."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import AXES, COMPILED, LENGTHS, PROBS, SEEDS, covering, grid, name_of, operand, shape_of

import jitmat
from jitmat import JITScalarMatrix
from jitmat._compute import dense
from jitmat._materialize import count_nonzeros, to_scipy, window

pattern = functools.lru_cache(maxsize=64)(reference.pattern)


def matrix(case, weight=0.5, backend=None):
    return JITScalarMatrix(
        weight, case["prob"], case["seed"], shape=shape_of(case), corder=case["corder"], backend=backend
    )


def check_product(y, weight, P, x):
    """y is weight * (P @ x) to the bit: x holds small whole numbers, so that no sum is rounded before its end."""
    wide = np.asarray(x).astype(complex if np.iscomplexobj(x) else np.int64)
    expected = np.asarray(weight * (P.astype(np.int64) @ wide))
    assert y.dtype == jnp.result_type(jnp.asarray(weight), x)
    np.testing.assert_array_equal(np.asarray(y), expected.astype(y.dtype))


def check_products(case, backend=None):
    P, W, weight = pattern(shape_of(case), case["prob"], case["seed"], case["corder"]), matrix(case, 0.5, backend), 0.5
    for A, Q in ((W, P), (W.T, P.T)):
        x, X = operand(Q.shape[1], case["dtype"]), operand((Q.shape[1], 3), case["dtype"], 5)
        check_product(A @ x, weight, Q, x)
        check_product(A @ X, weight, Q, X)
        check_product((x @ A.T).T, weight, Q, x)
        check_product((X.T @ A.T).T, weight, Q, X)


def check_stored(case, backend=None):
    P, W = pattern(shape_of(case), case["prob"], case["seed"], case["corder"]), matrix(case, 3, backend)
    np.testing.assert_array_equal(np.asarray(W.todense()), 3 * P)
    np.testing.assert_array_equal(np.asarray(W.T.todense()), 3 * P.T)
    assert W.nnz == W.T.nnz == P.sum()
    for stored, form in ((W.tocsr(), "csr"), (W.tocsc(), "csc"), (W.tocoo(), "coo")):
        assert stored.format == form
        assert stored.shape == W.shape
        assert stored.nnz == P.sum()
        assert stored.dtype == W.dtype
        np.testing.assert_array_equal(stored.toarray(), 3 * P)
    for stored in (W.tocsr(), W.tocsc()):
        major = np.repeat(np.arange(len(stored.indptr) - 1), np.diff(stored.indptr))
        ahead = (np.diff(major) > 0) | (np.diff(stored.indices) > 0)
        assert ahead.all()  # sorted, and nothing twice


@pytest.mark.parametrize("case", covering(**AXES), ids=name_of)
def test_every_product_has_the_entries_of_the_definition(case):
    with jax.enable_x64(case["x64"]):
        check_products(case)


STORED = {name: AXES[name] for name in ("length", "streams", "corder", "prob", "seed", "x64")}


@pytest.mark.parametrize("case", covering(**STORED), ids=name_of)
def test_every_stored_form_has_the_entries_of_the_definition(case):
    with jax.enable_x64(case["x64"]):
        check_stored(case)


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("dtype", AXES["dtype"])
@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_full_grid_has_the_entries_of_the_definition(length, corder, dtype, x64):
    with jax.enable_x64(x64):
        for case in grid(streams=(0, 7, 70), prob=PROBS, seed=SEEDS):
            case |= {"length": length, "corder": corder, "dtype": dtype}
            check_products(case)
            if dtype == "bool":
                check_stored(case)


FEW = {"length": (0, 1, 513, 1000), "streams": (1, 70), "corder": (False, True), "prob": (0.0, 0.003, 0.7, 1.0)}


@pytest.mark.parametrize("case", covering(**FEW, dtype=("bool", "float32"))[2:8:2], ids=name_of)
def test_plain_jax_has_the_entries_of_the_definition(case):
    case = case | {"seed": -1}
    check_products(case, "jax")
    check_stored(case, "jax")


@pytest.mark.slow
@pytest.mark.parametrize("case", covering(**AXES), ids=name_of)
def test_plain_jax_has_the_entries_of_the_definition_everywhere(case):
    with jax.enable_x64(case["x64"]):
        check_products(case, "jax")
        check_stored(case, "jax")


@pytest.mark.parametrize("shape", [(1000, 1000), (513, 1000), (1000, 513)])
@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_functions_multiply_by_the_matrix_of_the_class(shape, corder, transpose):
    """`corder` of a function speaks of the output, so the same matrix has both flags turned."""
    W = JITScalarMatrix(0.5, 0.1, 11, shape=shape, corder=corder)
    P = pattern(shape, 0.1, 11, corder)
    A, Q = (W.T, P.T) if transpose else (W, P)
    arguments = {"shape": shape, "transpose": transpose, "corder": corder != transpose}
    x, X = operand(Q.shape[1], "float32"), operand((Q.shape[1], 3), "float32")
    for function, z in ((jitmat.jitsmv, x), (jitmat.jitsmm, X)):
        y = function(0.5, 0.1, z, 11, **arguments)
        check_product(y, 0.5, Q, z)
        np.testing.assert_array_equal(y, A @ z)
    for function, z in ((jitmat.binary_jitsmv, x), (jitmat.binary_jitsmm, X)):
        check_product(function(0.5, 0.1, z, 11, **arguments), 0.5, Q, np.float32(z > 0))
    np.testing.assert_array_equal(jitmat.jits(0.5, 0.1, 11, **arguments), 0.5 * Q)
    data, indices, indptr = jitmat.jits_to_csr(0.5, 0.1, 11, **arguments)
    stored = W.T.tocsr() if transpose else W.tocsr()
    np.testing.assert_array_equal(data, stored.data)
    np.testing.assert_array_equal(indices, stored.indices)
    np.testing.assert_array_equal(indptr, stored.indptr)


def test_the_two_defaults_of_corder_are_brainevents():
    x = operand(300, "float32")
    by_class = JITScalarMatrix(1.0, 0.1, 3, shape=(200, 300))
    assert by_class.corder is False
    np.testing.assert_array_equal(by_class @ x, jitmat.jitsmv(1.0, 0.1, x, 3, shape=(200, 300), corder=False))
    default = jitmat.jitsmv(1.0, 0.1, x, 3, shape=(200, 300))
    np.testing.assert_array_equal(default, pattern((200, 300), 0.1, 3, True) @ x)


WINDOWS = [(0, 70, 0, 1000), (3, 5, 1, 999), (69, 1, 1023, 1), (10, 20, 500, 700), (0, 70, 1024, 976), (5, 0, 3, 0)]


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize(
    ("where", "backend"),
    [(where, COMPILED) for where in WINDOWS] + [(where, "jax") for where in WINDOWS[1::4]],
    ids=str,
)
def test_a_window_is_that_block_of_the_whole(where, corder, backend):
    """Streams and positions keep the whole's numbers, whole blocks and cut ones alike."""
    stream, streams, position, positions = where
    shape = (70, 2000) if corder else (2000, 70)
    whole = JITScalarMatrix(1.0, 0.3, 2**63 + 5, shape=shape, corder=corder)
    part = window(whole._connectivity, stream, streams, position, positions)
    P = reference.pattern(shape, 0.3, 2**63 + 5, corder)
    Q = P if corder else P.T
    Q = Q[stream : stream + streams, position : position + positions]
    Q = Q if corder else Q.T
    A = JITScalarMatrix._make(jnp.float32(1.0), part, backend)
    np.testing.assert_array_equal(dense(part, jnp.float32(1.0), backend), Q)
    assert count_nonzeros(part, backend) == Q.sum()
    np.testing.assert_array_equal(to_scipy(part, np.float32(1.0), backend).toarray(), Q)
    x, y = operand(Q.shape[1], "float32"), operand(Q.shape[0], "float32")
    np.testing.assert_array_equal(A @ x, Q @ x)
    np.testing.assert_array_equal(y @ A, y @ Q)
    np.testing.assert_array_equal(A @ (x != 0), Q @ (x != 0).astype(int))


@pytest.mark.parametrize("corder", [False, True])
def test_a_window_far_out_is_right(corder, backend):
    """Stream and position numbers near the end of their words."""
    streams, length = 2**32, 2**40
    shape = (streams, length) if corder else (length, streams)
    whole = JITScalarMatrix(1.0, 0.1, 9, shape=shape, corder=corder)
    part = window(whole._connectivity, streams - 3, 3, length - 20000, 20000)
    Q = reference.streams_of(np.arange(streams - 3, streams), length, 0.1, 9, length - 20000, length)
    Q = Q if corder else Q.T
    np.testing.assert_array_equal(dense(part, jnp.float32(1.0), backend), Q)
    A = JITScalarMatrix._make(jnp.float32(1.0), part, backend)
    x = operand(Q.shape[1], "float32")
    np.testing.assert_array_equal(A @ x, Q @ x)


def test_a_matrix_is_the_same_alone_among_others_and_in_a_batch():
    probs, seeds = (0.003, 0.3, 0.3, 0.1), (1, 2, -3, 2**64 - 1)
    x = operand(1000, "float32")
    Ws = [JITScalarMatrix(1.0, p, s, shape=(513, 1000)) for p, s in zip(probs, seeds, strict=True)]
    expected = np.stack([pattern((513, 1000), p, s, False) @ x for p, s in zip(probs, seeds, strict=True)])
    np.testing.assert_array_equal(np.stack([W @ x for W in Ws]), expected)
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.stack([W @ x for W in Ws]))(x), expected)
    same_prob = Ws[1:3]
    stacked = jax.vmap(lambda W: W @ x)(JITScalarMatrix.stack(same_prob))
    np.testing.assert_array_equal(stacked, expected[1:3])
    batch = np.stack([x, 2 * x, -x])
    np.testing.assert_array_equal(jax.vmap(lambda z: Ws[0] @ z)(batch)[1], 2 * expected[0])


@pytest.mark.parametrize("corder", [False, True])
def test_a_lower_prob_keeps_a_subset_of_the_entries(corder):
    smaller = np.zeros((300, 1000), bool)
    for prob in (0.0, 1e-4, 0.003, 0.1, 0.1001, 0.5, 0.99, 1.0):
        larger = np.asarray(JITScalarMatrix(1, prob, 5, shape=(300, 1000), corder=corder).todense()) != 0
        assert not (smaller & ~larger).any()
        smaller = larger
    assert smaller.all()


def seed_between_two_precisions():
    """A seed at which the first stream of 512 tells float32(0.1) from 0.1: its u lies between their thresholds."""
    single, double = (reference.thresholds(9, prob)[1] for prob in (float(np.float32(0.1)), 0.1))
    return reference.seed_that_draws(next(min(s, d) for s, d in zip(single, double, strict=True) if s != d))


def test_the_matrix_does_not_depend_on_precision_or_on_how_prob_is_given(x64):
    seed = seed_between_two_precisions()
    P = reference.pattern((512, 4), 0.1, seed)
    for prob in (0.1, np.float64(0.1), np.array(0.1)):
        np.testing.assert_array_equal(JITScalarMatrix(1, prob, seed, shape=(512, 4)).todense(), P)
        np.testing.assert_array_equal(jitmat.jits(1, prob, seed, shape=(512, 4), corder=False), P)


def test_an_array_prob_is_what_its_dtype_says():
    seed = seed_between_two_precisions()
    for prob, by in ((jnp.float32(0.1), float(np.float32(0.1))), (jnp.float16(0.1), float(np.float16(0.1)))):
        W = JITScalarMatrix(1, prob, seed, shape=(512, 4))
        np.testing.assert_array_equal(W.todense(), reference.pattern((512, 4), by, seed))
    differ = reference.pattern((512, 4), float(np.float32(0.1)), seed) != reference.pattern((512, 4), 0.1, seed)
    assert differ.any()

"""The renewal walk: every connection of brainevent 0.3, in every product, on every backend; and `jitmat.compat`."""

import inspect
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import COMPILED

import jitmat
import jitmat.compat as compat
from jitmat import JITScalarMatrix, Spikes
from jitmat._compute import dense, product, stream_counts
from jitmat._materialize import to_scipy, window
from jitmat._pattern import make_pattern

GOLDEN = np.load(Path(__file__).parent / "golden" / "brainevent_0.3.0_jits.npz")
CASES = sorted({name.split("_")[0] for name in GOLDEN})
FEW = sorted(CASES, key=lambda case: GOLDEN[f"{case}_bits"].size)[:6]  # small ones


def golden(case):
    """(the pattern, the arguments of `jits` that draw it)"""
    m, n, seed, transpose, corder = GOLDEN[f"{case}_params"].tolist()
    shape = tuple(GOLDEN[f"{case}_shape"])
    bits = np.unpackbits(GOLDEN[f"{case}_bits"])[: shape[0] * shape[1]].reshape(shape)
    arguments = {"prob": GOLDEN[f"{case}_prob"].item(), "seed": seed, "shape": (m, n)}
    return bits, arguments | {"transpose": bool(transpose), "corder": bool(corder), "walk": "renewal"}


def test_the_golden_file_has_every_kind_of_case():
    kinds = {(arguments["transpose"], arguments["corder"]) for _, arguments in map(golden, CASES)}
    assert len(CASES) == 48
    assert len(kinds) == 4
    assert len({arguments["prob"] for _, arguments in map(golden, CASES)}) > 5


@pytest.mark.parametrize("case", CASES)
def test_the_reference_draws_the_golden_matrix(case):
    bits, arguments = golden(case)
    rows = bits if arguments["corder"] else bits.T
    drawn = reference.renewal_streams(np.arange(len(rows)), rows.shape[1], arguments["prob"], arguments["seed"])
    np.testing.assert_array_equal(drawn, rows)


@pytest.mark.parametrize("case", CASES)
def test_the_compiled_kernels_draw_the_golden_matrix(case):
    bits, arguments = golden(case)
    np.testing.assert_array_equal(jitmat.jits(1.0, **arguments, backend=COMPILED), bits)
    data, indices, indptr = jitmat.jits_to_csr(1.0, **arguments, backend=COMPILED)
    np.testing.assert_array_equal(np.diff(indptr), bits.sum(axis=1))
    np.testing.assert_array_equal(indices, np.nonzero(bits)[1])
    assert data.shape == indices.shape


@pytest.mark.parametrize("case", FEW)
def test_plain_jax_draws_the_golden_matrix(case):
    bits, arguments = golden(case)
    np.testing.assert_array_equal(jitmat.jits(1.0, **arguments, backend="jax"), bits)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_plain_jax_draws_every_golden_matrix(case):
    bits, arguments = golden(case)
    np.testing.assert_array_equal(jitmat.jits(1.0, **arguments, backend="jax"), bits)


# The first case at least has all kinds of operands checked against it.
SHAPE, PROB, SEED = (300, 150), 0.1, 11
rng = np.random.default_rng(0)
X = rng.integers(-2, 3, (150, 3)).astype(np.float32)  # small whole numbers: sums are exact in every order
Y = rng.integers(-2, 3, (300, 20)).astype(np.float32)  # more columns than a vector has


def matrix(corder, backend=None, **kwargs):
    return JITScalarMatrix(2.0, PROB, SEED, shape=SHAPE, corder=corder, walk="renewal", backend=backend, **kwargs)


def pattern(corder):
    return np.asarray(jitmat.jits(1.0, PROB, SEED, shape=SHAPE, corder=corder, walk="renewal"))


@pytest.mark.parametrize("corder", [False, True])
def test_products_are_those_of_the_pattern(corder, backend):
    W, P = matrix(corder, backend), pattern(corder)
    np.testing.assert_array_equal(W.todense(), 2 * P)
    for A, Q, Z in ((W, P, X), (W.T, P.T, Y)):
        np.testing.assert_array_equal(A @ Z[:, 0], 2 * Q @ Z[:, 0])
        np.testing.assert_array_equal(A @ Z, 2 * Q @ Z)
        np.testing.assert_array_equal(Z[:, 0] @ A.T, 2 * Q @ Z[:, 0])
        np.testing.assert_array_equal(A @ Spikes(Z[:, 0]), 2 * Q @ (Z[:, 0] > 0))
        np.testing.assert_array_equal(A @ (Z > 0), 2 * Q @ (Z > 0))
        np.testing.assert_array_equal(A @ np.zeros(len(Z), bool), np.zeros(len(Q)))
    assert W.nnz == P.sum()


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize("begin", [(0, 0), (37, 3), (80, 76)])
def test_a_window_keeps_the_chunks_of_the_whole_axis(corder, begin, backend):
    W = matrix(corder)
    (i, j), (rows, columns) = begin, (110, 71)
    block = (i, rows, j, columns) if corder else (j, columns, i, rows)
    part = window(W._connectivity, *block)
    P = pattern(corder)[i : i + rows, j : j + columns]
    np.testing.assert_array_equal(dense(part, 1.0, backend), P)
    np.testing.assert_array_equal(stream_counts(part, backend), P.sum(axis=int(corder)))
    np.testing.assert_array_equal(to_scipy(part, 1.0, backend).toarray(), P)
    np.testing.assert_array_equal(product(part, 1.0, X[:columns], backend=backend), P @ X[:columns])
    np.testing.assert_array_equal(product(part.T, 1.0, Y[:rows, 0], backend=backend), P.T @ Y[:rows, 0])


@pytest.mark.parametrize("corder", [False, True])
def test_the_diagonal_can_be_left_out(corder, backend):
    W = JITScalarMatrix(1.0, 0.5, 3, shape=(150, 150), corder=corder, walk="renewal", backend=backend)
    without = W._connectivity._replace(pattern=make_pattern((150, 150), corder, "renewal", diagonal=False))
    P = np.array(W.todense())
    assert P.diagonal().any()
    np.fill_diagonal(P, 0)
    np.testing.assert_array_equal(dense(without, 1.0, backend), P)
    np.testing.assert_array_equal(stream_counts(without, backend), P.sum(axis=int(corder)))
    np.testing.assert_array_equal(product(without, 1.0, X[:, 0], backend=backend), P @ X[:, 0])
    np.testing.assert_array_equal(product(without, 1.0, X, backend=backend), P @ X)
    np.testing.assert_array_equal(product(without.T, 1.0, X[:, 0] > 0, backend=backend), P.T @ (X[:, 0] > 0))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 3), (3, 1), (2, 127), (129, 2)])
@pytest.mark.parametrize("prob", [0.0, 1.0])
def test_empty_and_full_matrices_of_any_shape(shape, prob, backend):
    for corder in (False, True):
        W = JITScalarMatrix(1.0, prob, 0, shape=shape, corder=corder, walk="renewal", backend=backend)
        np.testing.assert_array_equal(W.todense(), np.full(shape, prob))
        np.testing.assert_array_equal(W @ np.ones(shape[1], np.float32), np.full(shape[0], prob * shape[1]))


def test_the_matrix_is_one_under_transformations(backend):
    W, P = matrix(False, backend), pattern(False)
    x = jnp.asarray(X[:, 0])
    np.testing.assert_array_equal(jax.jit(lambda W, x: W @ x)(W, x), 2 * P @ X[:, 0])
    np.testing.assert_array_equal(jax.vmap(lambda x: W @ x, 1, 1)(X), 2 * P @ X)
    np.testing.assert_array_equal(jax.grad(lambda x: (W @ x).sum())(x), 2 * P.sum(axis=0))
    np.testing.assert_array_equal(jax.grad(lambda W: (W @ x).sum())(W).data, (P @ X[:, 0]).sum())
    shape = {"shape": SHAPE, "corder": False, "walk": "renewal", "backend": backend}
    by_prob = jax.jit(lambda prob: jitmat.jitsmv(2.0, prob, x, SEED, **shape))(jnp.float32(0.5))
    np.testing.assert_array_equal(by_prob, jitmat.jitsmv(2.0, 0.5, x, SEED, **shape))
    seeds = jnp.array([SEED, -1, 5])
    ensemble = jax.vmap(lambda seed: jitmat.jitsmv(2.0, PROB, x, seed, **shape))(seeds)
    for y, seed in zip(ensemble, seeds.tolist(), strict=True):
        np.testing.assert_array_equal(y, jitmat.jitsmv(2.0, PROB, x, seed, **shape))


def test_seeds_have_32_bits(x64):
    make = lambda seed: JITScalarMatrix(1.0, 0.3, seed, shape=(20, 30), walk="renewal")
    for a, b in ((-1, 2**32 - 1), (-(2**31), 2**31), (np.int32(-7), 2**32 - 7)):
        np.testing.assert_array_equal(make(a).todense(), make(b).todense())
        np.testing.assert_array_equal(make(a).todense(), make(jnp.asarray(a)).todense())
    for seed in (2**32, -(2**31) - 1, *((jnp.asarray(2**40), jnp.asarray(-(2**40))) if x64 else ())):
        with pytest.raises(ValueError, match=r"\[-2\^31, 2\^32\)"):
            make(seed)
    with pytest.raises(TypeError, match="32 bits"):
        make(jax.random.key(0))
    assert 0 <= make(None).seed < 2**31


def test_a_prob_that_the_walk_cannot_draw_is_refused():
    make = lambda prob: JITScalarMatrix(1.0, prob, 0, shape=(20, 30), walk="renewal")
    for prob in (2.0**-31, 1e-12, 5e-324):
        with pytest.raises(ValueError, match=r"above 2\^-31"):
            make(prob)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        make(1.5)
    assert make(2.0**-30).nnz == 0
    with pytest.raises(ValueError, match=r"2\^32 positions"):
        JITScalarMatrix(1.0, 0.1, 0, shape=(2**32 + 1, 3), walk="renewal")


def test_the_density_is_what_the_documentation_says():
    for prob, density in ((0.3, 2 / 7), (0.7, 2 / 3), (0.99, 2 / 3), (0.5, 0.5)):
        P = np.asarray(jitmat.jits(1.0, prob, 1, shape=(400, 2000), walk="renewal"))
        assert abs(P.mean() - density) < 0.01


def test_two_walks_are_two_matrices():
    W = JITScalarMatrix(2.0, PROB, SEED, shape=SHAPE)
    with pytest.raises(NotImplementedError, match="same"):
        W + matrix(False)
    assert "walk='renewal'" in repr(matrix(False))


# -- jitmat.compat -----------------------------------------------------------------------------------


def test_compat_builds_matrices_as_brainevent_does():
    bits, arguments = golden(next(case for case in CASES if not golden(case)[1]["transpose"]))
    prob, seed = arguments["prob"], arguments["seed"]
    shape, corder = arguments["shape"], arguments["corder"]
    for W in (
        compat.JITCScalarR((1.5, prob, seed), shape=shape, corder=corder),
        compat.JITCScalarC(1.5, prob, seed, shape=shape, corder=corder),
    ):
        np.testing.assert_array_equal(W.todense(), 1.5 * bits)
        np.testing.assert_array_equal(W.T.todense(), 1.5 * bits.T)
        assert isinstance(W.T, compat.JITCScalarR)
        assert isinstance(2 * W, compat.JITCScalarC)
        events = np.arange(shape[1]) % 3 == 0
        np.testing.assert_array_equal(W @ compat.BinaryArray(events), 1.5 * bits @ events)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(W)).todense(), 1.5 * bits)
        np.testing.assert_array_equal(jax.jit(lambda W: W.todense())(W), 1.5 * bits)


@pytest.mark.parametrize("name", ["jitsmv", "jitsmm", "binary_jitsmv", "binary_jitsmm"])
def test_compat_functions_draw_the_renewal_walk(name):
    function, operand = getattr(compat, name), X if name.endswith("m") else X[:, 0]
    arguments = (1.5, PROB, operand, SEED)
    expected = getattr(jitmat, name)(*arguments, shape=SHAPE, walk="renewal")
    np.testing.assert_array_equal(function(*arguments, shape=SHAPE), expected)
    assert inspect.signature(function).parameters["walk"].default == "renewal"
    assert pickle.loads(pickle.dumps(function)) is function
    other = getattr(jitmat, name)(*arguments, shape=SHAPE)
    np.testing.assert_array_equal(function(*arguments, shape=SHAPE, walk="bernoulli"), other)


def test_compat_names_its_mistakes():
    with pytest.raises(TypeError, match="weight, prob, seed"):
        compat.JITCScalarR((1.5, 0.1), shape=(3, 4))
    with pytest.raises(TypeError, match="weight, prob, seed"):
        compat.JITCScalarR((1.5, 0.1, 3), 0.1, shape=(3, 4))
    with pytest.raises(TypeError, match="prob"):
        compat.JITCScalarR(1.5, shape=(3, 4))

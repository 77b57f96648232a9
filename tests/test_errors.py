"""Errors name the mistake: the exception's kind, and both shapes or the value."""

import copy

import brainunit as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from cases import COMPILED

import jitmat
from jitmat import JITScalarMatrix, Spikes

W = JITScalarMatrix(0.5, 0.1, 3, shape=(30, 20))
ELSEWHERE = "numba" if COMPILED == "cuda_raw" else "cuda_raw"
OTHER = JITScalarMatrix(0.5, 0.1, 4, shape=(30, 20))
x20, x30 = jnp.ones(20), jnp.ones(30)


def make(weight=1.0, prob=0.1, seed=0, shape=(30, 20), **others):
    return JITScalarMatrix(weight, prob, seed, shape=shape, **others)


MATRICES = {
    "weight: a vector": (lambda: make([1.0, 2.0]), ValueError, r"scalar.*\(2,\)"),
    "weight: nothing": (lambda: make(None), TypeError, "weight must be a number.*None"),
    "weight: a string": (lambda: make("1"), TypeError, "weight must be a number.*'1'"),
    "weight: a boolean": (lambda: make(True), TypeError, "boolean"),
    "weight: a boolean array": (lambda: make(jnp.array(True)), TypeError, "boolean"),
    "weight: a matrix": (lambda: make(W), TypeError, "weight must be a number"),
    "weight: an object array": (lambda: make(np.array(object())), TypeError, "weight must be a number"),
    "weight: a random key": (lambda: make(jax.random.key(0)), TypeError, "weight must be a number"),
    "prob: above 1": (lambda: make(prob=1.5), ValueError, r"\[0, 1\].*1\.5"),
    "prob: below 0": (lambda: make(prob=-0.1), ValueError, r"\[0, 1\].*-0\.1"),
    "prob: not a number": (lambda: make(prob=float("nan")), ValueError, "nan"),
    "prob: infinite": (lambda: make(prob=np.inf), ValueError, "inf"),
    "prob: a string": (lambda: make(prob="0.1"), TypeError, "'0.1'"),
    "prob: nothing": (lambda: make(prob=None), TypeError, "prob.*None"),
    "prob: a boolean": (lambda: make(prob=True), TypeError, "prob.*True"),
    "prob: a vector": (lambda: make(prob=[0.1, 0.2]), (TypeError, ValueError), "prob"),
    "prob: a JAX vector": (lambda: make(prob=jnp.array([0.1, 0.2])), ValueError, r"\(2,\)"),
    "prob: a JAX integer": (lambda: make(prob=jnp.array(1)), TypeError, "int32"),
    "prob: a JAX value above 1": (lambda: make(prob=jnp.array(2.0)), ValueError, "2.0"),
    "prob: complex": (lambda: make(prob=0.1j), TypeError, "prob"),
    "prob: with a unit": (lambda: make(prob=0.1 * u.mV), TypeError, "prob"),
    "seed: a float": (lambda: make(seed=1.0), TypeError, "seed.*1.0"),
    "seed: a boolean": (lambda: make(seed=True), TypeError, "boolean"),
    "seed: a string": (lambda: make(seed="1"), TypeError, "'1'"),
    "seed: too large": (lambda: make(seed=2**64), ValueError, str(2**64)),
    "seed: too small": (lambda: make(seed=-(2**63) - 1), ValueError, str(-(2**63) - 1)),
    "seed: a list": (lambda: make(seed=[1, 2]), TypeError, "seed"),
    "seed: an array": (lambda: make(seed=np.arange(2)), ValueError, r"\(2,\)"),
    "seed: a JAX float": (lambda: make(seed=jnp.float32(1)), TypeError, "float32"),
    "seed: a JAX boolean": (lambda: make(seed=jnp.array(True)), TypeError, "bool"),
    "seed: a JAX array": (lambda: make(seed=jnp.arange(3)), ValueError, r"\(3,\)"),
    "seed: several keys": (lambda: make(seed=jax.random.split(jax.random.key(0))), ValueError, r"\(2, 2\)"),
    "seed: a wider key": (lambda: make(seed=jax.random.key(0, impl="rbg")), ValueError, r"\(4,\)"),
    "shape: a number": (lambda: make(shape=30), TypeError, "30"),
    "shape: one number": (lambda: make(shape=(30,)), (TypeError, ValueError), r"\(30,\)"),
    "shape: three": (lambda: make(shape=(3, 4, 5)), (TypeError, ValueError), r"\(3, 4, 5\)"),
    "shape: negative": (lambda: make(shape=(-1, 4)), ValueError, r"\(-1, 4\)"),
    "shape: halves": (lambda: make(shape=(2.5, 4)), (TypeError, ValueError), r"\(2\.5, 4\)"),
    "shape: not finite": (lambda: make(shape=(float("inf"), 4)), (TypeError, ValueError), "inf"),
    "shape: a string": (lambda: make(shape="ab"), TypeError, "ab"),
    "shape: nothing": (lambda: make(shape=None), TypeError, "None"),
    "shape: with None": (lambda: make(shape=(None, 3)), TypeError, "None"),
    "shape: booleans": (lambda: make(shape=(True, 3)), TypeError, "True"),
    "shape: too many streams": (lambda: make(shape=(3, 2**32 + 1)), ValueError, "2\\^32"),
    "shape: too many positions": (lambda: make(shape=(2**40 + 1, 3)), ValueError, "2\\^40"),
    "corder: a string": (lambda: make(corder="C"), TypeError, "'C'"),
    "corder: a number": (lambda: make(corder=1), TypeError, "1"),
    "corder: nothing": (lambda: make(corder=None), TypeError, "None"),
    "walk: unknown": (lambda: make(walk="drunk"), ValueError, "bernoulli.*drunk"),
    "walk: a list": (lambda: make(walk=["bernoulli"]), (TypeError, ValueError), "walk"),
    "backend: unknown": (lambda: make(backend="numpy"), ValueError, "numba.*numpy"),
    "backend: a list": (lambda: make(backend=["numba"]), (TypeError, ValueError), "backend"),
    "no shape": (lambda: JITScalarMatrix(1.0, 0.1, 0), TypeError, "shape"),
}

PRODUCTS = {
    "a vector too short": (lambda: W @ x30, ValueError, r"\(30, 20\) @ \(30,\)"),
    "a vector too short on the left": (lambda: x20 @ W, ValueError, r"\(20,\) @ \(30, 20\)"),
    "a matrix the wrong way": (lambda: W @ jnp.ones((30, 20)), ValueError, r"\(30, 20\) @ \(30, 20\)"),
    "a matrix the wrong way on the left": (lambda: jnp.ones((30, 20)) @ W, ValueError, r"\(30, 20\) @ \(30, 20\)"),
    "a scalar": (lambda: W @ 2.0, ValueError, r"\(30, 20\) @ \(\)"),
    "a scalar on the left": (lambda: 2.0 @ W, ValueError, r"\(\) @ \(30, 20\)"),
    "three dimensions": (lambda: W @ jnp.ones((20, 2, 2)), ValueError, r"\(20, 2, 2\)"),
    "three dimensions on the left": (lambda: jnp.ones((2, 2, 30)) @ W, ValueError, r"\(2, 2, 30\)"),
    "nothing": (lambda: W @ None, TypeError, "NoneType"),
    "nothing on the left": (lambda: None @ W, TypeError, "NoneType"),
    "a string": (lambda: W @ "abc", TypeError, "str"),
    "a string on the left": (lambda: "abc" @ W, TypeError, "str"),
    "a dict": (lambda: W @ {}, TypeError, "dict"),
    "an object array": (lambda: W @ np.array([object()] * 20), TypeError, None),
    "an object array on the left": (lambda: np.array([object()] * 30) @ W, TypeError, None),
    "strings": (lambda: W @ np.array(["a"] * 20), TypeError, None),
    "dates": (lambda: W @ np.zeros(20, "datetime64[s]"), TypeError, None),
    "random keys": (lambda: W @ jax.random.split(jax.random.key(0), 20), TypeError, "key"),
    "ragged lists": (lambda: W @ [[1.0], [1.0, 2.0]], (TypeError, ValueError), None),
    "complex events": (lambda: W @ Spikes(jnp.ones(20, complex)), TypeError, "complex64"),
    "complex events of a function": (
        lambda: jitmat.binary_jitsmv(1.0, 0.1, jnp.ones(20, complex), 0, shape=(30, 20)),
        TypeError,
        "complex64",
    ),
    "another matrix": (lambda: W @ OTHER.T, NotImplementedError, r"W1 @ \(W2 @ x\)"),
    "a sparse matrix": (lambda: W @ scipy.sparse.eye_array(30), ValueError, r"\(30, 20\) @ \(30, 30\)"),
    "a sparse matrix on the left": (lambda: scipy.sparse.eye_array(20) @ W, ValueError, "dimension|shape"),
    "np.dot": (lambda: np.dot(np.ones(30), W), TypeError, "dot.*dense"),
    "np.dot the other way": (lambda: np.dot(W, np.ones(20)), TypeError, "dot.*dense"),
    "np.matmul of a wrong shape": (lambda: np.matmul(np.ones(20), W), ValueError, r"\(20,\) @ \(30, 20\)"),
    "np.add": (lambda: np.add(np.ones((30, 20)), W), TypeError, "add"),
    "np.exp": (lambda: np.exp(W), TypeError, "exp"),
    "np.linalg.norm": (lambda: np.linalg.norm(W), TypeError, "norm"),
    "a function's wrong vector": (lambda: jitmat.jitsmv(1.0, 0.1, x30, 0, shape=(30, 20)), ValueError, r"\(30,\)"),
    "a function's matrix": (
        lambda: jitmat.jitsmv(1.0, 0.1, jnp.ones((20, 2)), 0, shape=(30, 20)),
        ValueError,
        r"jitsmv.*\(20, 2\)",
    ),
    "a function's vector": (lambda: jitmat.jitsmm(1.0, 0.1, x20, 0, shape=(30, 20)), ValueError, r"jitsmm.*\(20,\)"),
    "a function's None": (lambda: jitmat.jitsmv(1.0, 0.1, None, 0, shape=(30, 20)), (TypeError, ValueError), None),
    "a function's list of three": (
        lambda: jitmat.jitsmv(1.0, 0.1, [1, 2, 3], 0, shape=(30, 20)),
        ValueError,
        r"\(3,\)",
    ),
    "a function's transpose": (
        lambda: jitmat.jitsmv(1.0, 0.1, x20, 0, shape=(30, 20), transpose="yes"),
        TypeError,
        "transpose.*yes",
    ),
    "a function's shape": (lambda: jitmat.jitsmv(1.0, 0.1, x20, 0, shape=(30,)), TypeError, r"\(30,\)"),
    "a function's backend": (
        lambda: jitmat.jitsmv(1.0, 0.1, x20, 0, shape=(30, 20), backend="numpy"),
        ValueError,
        "numpy",
    ),
    "another platform's backend": (lambda: make(backend=ELSEWHERE) @ x20, NotImplementedError, f"{ELSEWHERE}.* has"),
}

OPERATORS = {
    "W + 1": (lambda: W + 1, NotImplementedError, "W \\+ 1"),
    "1 + W": (lambda: 1 + W, NotImplementedError, None),
    "W - 1": (lambda: W - 1, NotImplementedError, None),
    "1 - W": (lambda: 1 - W, NotImplementedError, None),
    "W + array": (lambda: W + jnp.ones((30, 20)), NotImplementedError, r"\(30, 20\)"),
    "NumPy array + W": (lambda: np.ones((30, 20)) + W, (TypeError, NotImplementedError), None),
    "W + another": (lambda: W + OTHER, NotImplementedError, "seed"),
    "W - another": (lambda: W - OTHER, NotImplementedError, "seed"),
    "W + transposed": (lambda: W + W.T, NotImplementedError, "corder"),
    "W + None": (lambda: W + None, NotImplementedError, "None"),
    "W * vector": (lambda: W * x20, NotImplementedError, r"\(20,\)"),
    "vector * W": (lambda: np.ones(20) * W, NotImplementedError, r"\(20,\)"),
    "W * list": (lambda: W * [1, 2], (TypeError, NotImplementedError), None),
    "W * string": (lambda: W * "a", (TypeError, NotImplementedError), None),
    "W * None": (lambda: W * None, (TypeError, NotImplementedError), None),
    "W * W": (lambda: W * W, NotImplementedError, "scalar"),
    "W / vector": (lambda: W / x20, NotImplementedError, r"\(20,\)"),
    "1 / W": (lambda: 1 / W, NotImplementedError, "zeros"),
    "W ** 2": (lambda: W**2, NotImplementedError, None),
    "W // 2": (lambda: W // 2, NotImplementedError, None),
    "W % 2": (lambda: W % 2, NotImplementedError, None),
    "len": (lambda: len(W), TypeError, "shape"),
    "iter": (lambda: iter(W), TypeError, r"W\[i\].*tocsr"),
    "list": (lambda: list(W), TypeError, r"W\.shape\[0\]|W\[i\]"),
    "in": (lambda: 1 in W, TypeError, None),
    "bool": (lambda: bool(W), (TypeError, ValueError), None),
    "float": (lambda: float(W), TypeError, None),
    "transpose by wrong axes": (lambda: W.transpose((0, 1)), ValueError, r"\(0, 1\)"),
    "with_data of a vector": (lambda: W.with_data(jnp.ones(3)), ValueError, r"\(3,\)"),
    "astype bool": (lambda: W.astype(bool), TypeError, "boolean"),
    "astype nonsense": (lambda: W.astype("nonsense"), TypeError, "nonsense"),
    "stack of none": (lambda: JITScalarMatrix.stack([]), ValueError, "at least one"),
    "stack of unlike ones": (lambda: JITScalarMatrix.stack([W, W.T]), ValueError, "agree"),
    "stack of an array": (lambda: JITScalarMatrix.stack([W, x20]), TypeError, None),
    "tocsr of a unit": (lambda: (W * u.mV).tocsr(), ValueError, "unit="),
    "tocsr of another unit": (lambda: (W * u.mV).tocsr(unit=u.mA), u.UnitMismatchError, "mV and mA"),
    "hash of data": (lambda: hash(make(seed=jnp.array(1))), TypeError, "data"),
    "nnz of a traced seed": (lambda: jax.jit(lambda s: make(seed=s).nnz)(1), TypeError, "concrete"),
    "tocsr of a traced prob": (lambda: jax.jit(lambda p: make(prob=p).tocsr().data)(0.1), TypeError, "concrete"),
    "tocsr of a traced weight": (lambda: jax.jit(lambda w: make(w).tocsr().data)(0.1), TypeError, "concrete|traced"),
    "grad over an array seed": (
        lambda: jax.grad(lambda A: (A @ x20).sum())(make(seed=jnp.array(1))),
        TypeError,
        "uint32",
    ),
}

PARTS = {
    "a row beyond": (lambda: W[30], IndexError, "index 30 is out of range for axis 0 of size 30"),
    "a row before": (lambda: W[-31], IndexError, "index -31 is out of range for axis 0 of size 30"),
    "a column beyond": (lambda: W[:, 20], IndexError, "index 20 is out of range for axis 1 of size 20"),
    "a column of a view": (lambda: W[5:, 5:][0, 15], IndexError, "index 15 .* axis 1 of size 15"),
    "a list beyond": (lambda: W[[0, 30]], IndexError, "index 30 "),
    "a huge row": (lambda: W[2**70], IndexError, str(2**70)),
    "a row of none": (lambda: make(shape=(0, 3))[0], IndexError, "index 0 .* size 0"),
    "a traced row of none": (lambda: jax.jit(lambda i: make(shape=(0, 3))[i])(0), IndexError, "empty"),
    "three indices": (lambda: W[1, 2, 3], IndexError, "got 3 indices"),
    "two ellipses": (lambda: W[..., ...], IndexError, "W\\[i, j\\]"),
    "None": (lambda: W[None], IndexError, "None would add"),
    "None beside": (lambda: W[:, None], IndexError, "None would add"),
    "a float": (lambda: W[1.0], TypeError, "got 1.0"),
    "a float array": (lambda: W[np.ones(2)], TypeError, "must be an integer"),
    "a traced float": (lambda: jax.jit(lambda i: W[i])(1.0), TypeError, "float32"),
    "a boolean": (lambda: W[True], TypeError, "flatnonzero"),
    "a mask": (lambda: W[np.ones(30, bool)], TypeError, "flatnonzero"),
    "a JAX mask": (lambda: W[x30 > 0], TypeError, "flatnonzero"),
    "a list of booleans": (lambda: W[[True] * 30], TypeError, "flatnonzero"),
    "a traced mask": (lambda: jax.jit(lambda m: W[m])(x30 > 0), TypeError, "flatnonzero"),
    "a string": (lambda: W["a"], TypeError, "got 'a'"),
    "a ragged list": (lambda: W[[[1], [2, 3]]], TypeError, "must be an integer"),
    "a step": (lambda: W[::2], NotImplementedError, "step 2.*np.arange"),
    "backwards": (lambda: W[:, ::-1], NotImplementedError, "step -1.*np.arange"),
    "a step of 0": (lambda: W[::0], ValueError, "zero"),
    "a slice of floats": (lambda: W[1.0:2.0], TypeError, "concrete integers"),
    "a traced slice": (lambda: jax.jit(lambda i: W[i : i + 2].todense())(1), TypeError, r"W\[i \+ jnp.arange"),
    "lists that do not broadcast": (lambda: W[[1, 2], [1, 2, 3]], IndexError, r"\(2,\) .* \(3,\)"),
    "setting": (lambda: W.__setitem__(0, 1), (TypeError, AttributeError), None),
    "row beyond": (lambda: W.row(30), IndexError, "index 30 "),
    "col of a float": (lambda: W.col(1.5), TypeError, "got 1.5"),
    "diagonal of a float": (lambda: W.diagonal(1.5), TypeError, "integer"),
    "degrees of none": (lambda: W.degrees(None), ValueError, "axis must be 0 or 1, got None"),
    "degrees beyond": (lambda: W.degrees(2), ValueError, "axis must be 0 or 1, got 2"),
    "mean beyond": (lambda: W.mean(2), ValueError, "axis must be 0, 1 or None, got 2"),
    "to_bcsr of a unit": (lambda: (W * u.mV).to_bcsr(), ValueError, r"to_bcsr\(unit="),
    "to_bcoo of a unit": (lambda: (W * u.mV).to_bcoo(), ValueError, r"to_bcoo\(unit="),
    "to_bcsr of a traced seed": (lambda: jax.jit(lambda s: make(seed=s).to_bcsr().data)(1), TypeError, "concrete"),
    "progress of a string": (lambda: W.tocsr(progress="yes"), TypeError, "progress.*'yes'"),
    "unpacking": (lambda: [*W], TypeError, r"W\[i\].*tocsr"),
}


@pytest.mark.parametrize(
    ("mistake", "kind", "fragment"),
    [pytest.param(*case, id=name) for cases in (MATRICES, PRODUCTS, OPERATORS, PARTS) for name, case in cases.items()],
)
def test_a_mistake_is_named(mistake, kind, fragment):
    with pytest.raises(kind, match=fragment) as caught:
        mistake()
    assert "\n" not in str(caught.value).strip()  # one sentence


def test_a_mistake_under_jit_is_named_when_traced():
    with pytest.raises(ValueError, match=r"\(30, 20\) @ \(30,\)"):
        jax.jit(lambda x: W @ x)(x30)


def test_a_traced_prob_out_of_range_is_named_when_it_runs():
    with pytest.raises(Exception, match=r"\[0, 1\], got 1\.5"):
        jax.block_until_ready(jax.jit(lambda p: make(prob=p) @ x20)(1.5))


def test_what_was_refused_leaves_the_matrix_as_it_was():
    before = copy.deepcopy(W)
    for mistake, kind, _ in OPERATORS.values():
        with pytest.raises(kind):
            mistake()
    assert repr(before) == repr(W)
    np.testing.assert_array_equal(before @ x20, W @ x20)

"""The CUDA kernels against the definition, block by block; needs a GPU."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from jitmat import _cuda
from jitmat._walk import get_walk

pytestmark = pytest.mark.gpu


class Case:
    """A window of a matrix whose walked axis has `whole` positions."""

    def __init__(
        self, streams, length, prob, seed=42, stream=0, position=0, whole=None, diagonal=True, walk="bernoulli"
    ):
        self.prob, self.seed, self.stream, self.position = prob, seed, stream, position
        self.whole = whole or position + length
        self.block = {
            "streams": streams,
            "length": length,
            "walk": walk,
            "size": get_walk(walk).block_length(self.whole),
            "diagonal": diagonal,
        }

    def __repr__(self):
        return "-".join(map(str, (*self.block.values(), self.prob, self.stream, self.position)))

    @functools.cached_property
    def operands(self):
        words = [self.seed % 2**64 >> 32, self.seed % 2**32], [self.stream, self.position % 2**32, self.position >> 32]
        table = get_walk(self.block["walk"]).table(self.prob, self.whole)
        return table, *(np.array(w, np.uint32) for w in words)

    @functools.cached_property
    def pattern(self):
        """(streams, length)"""
        streams = np.arange(self.block["streams"], dtype=np.uint64) + self.stream
        end = self.position + self.block["length"]
        draw = reference.streams_of if self.block["walk"] == "bernoulli" else reference.renewal_streams
        rows = draw(streams, self.whole, self.prob, self.seed, self.position, end)
        if not self.block["diagonal"]:
            rows &= streams[:, None] != np.arange(self.position, end, dtype=np.uint64)
        return rows

    def product(self, x, gather, deterministic=False):
        run = functools.partial(_cuda.product, gather=gather, deterministic=deterministic, **self.block)
        return np.asarray(jax.jit(run)(*self.operands, jnp.asarray(x)))


CASES = [
    Case(64, 100, 0.3),
    Case(1000, 1000, 0.1),
    Case(300, 877, 0.05, seed=-1, diagonal=False),
    Case(257, 4000, 0.02, seed=2**64 - 5, stream=5, position=3, whole=4100, diagonal=False),
    Case(33, 5000, 0.5, stream=100, position=1234),
    Case(2500, 20000, 0.1),
    Case(100, 50000, 0.01, diagonal=False),
    Case(70, 100000, 0.01, stream=2**31),
    Case(40, 100000, 0.001, stream=7, position=2**33 + 77, whole=2**34),
    Case(20, 30, 1.0, diagonal=False),
    Case(20, 30, 0.0),
    Case(3000, 64, 0.9),
    Case(1, 20000, 0.2),
    Case(6000, 1200, 0.003, position=100, diagonal=False),
    Case(300, 877, 0.05, seed=-1, diagonal=False, walk="renewal"),
    Case(1000, 4000, 0.1, stream=5, position=3, whole=4100, walk="renewal"),
    Case(40, 300000, 0.001, position=123, whole=310000, walk="renewal"),
    Case(20, 30, 1.0, diagonal=False, walk="renewal"),
    Case(33, 50, 0.0, walk="renewal"),
]
cases = pytest.mark.parametrize("case", CASES, ids=repr)
gathers = pytest.mark.parametrize("gather", [True, False], ids=["gather", "scatter"])


def exactly(P, x):
    """P @ x for whole numbers, modulo 2^64, by pieces that float64 sums exactly."""
    pieces = (
        (P @ (x.astype(np.int64) >> i & 0xFFFF).astype(np.float64)).astype(np.uint64) << i for i in (0, 16, 32, 48)
    )
    return functools.reduce(np.add, pieces)


def sides(case, gather):
    P = (case.pattern if gather else case.pattern.T).astype(np.float64)
    return P, np.random.default_rng(0)


@cases
@gathers
@pytest.mark.parametrize("columns", [1, 3, 20, 70])
def test_products_have_the_entries_of_the_definition(case, gather, columns):
    P, random = sides(case, gather)
    shape = (P.shape[1], columns)
    for active in (0.0, 0.02, 0.5, 1.0):
        x = random.random(shape) < active
        for mask in (x, x.astype(np.uint8) * 200):
            np.testing.assert_array_equal(case.product(mask, gather), P @ x)
    x = random.integers(-(2**31), 2**31, shape)
    wrapped = exactly(P, x).astype(np.int32)
    np.testing.assert_array_equal(case.product(x.astype(np.int32), gather), wrapped)
    x = random.standard_normal(shape)
    size = P @ np.abs(x)
    with jax.enable_x64(True):
        for deterministic in (False, True):
            for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
                y = case.product(x.astype(dtype), gather, deterministic)
                assert y.dtype == dtype
                assert (np.abs(y - P @ x.astype(dtype).astype(np.float64)) <= tolerance * size + 1e-30).all()
        x = random.integers(-(2**62), 2**62, shape)
        np.testing.assert_array_equal(case.product(x, gather), exactly(P, x).astype(np.int64))


@cases
@gathers
def test_whole_numbers_are_summed_exactly(case, gather):
    P, random = sides(case, gather)
    for columns in (1, 20):
        x = random.integers(-4, 5, (P.shape[1], columns))
        np.testing.assert_array_equal(case.product(x.astype(np.float32), gather), P @ x)


@cases
@gathers
@pytest.mark.parametrize("columns", [1, 5, 20])
def test_sums_of_floats_are_the_same_in_every_run(case, gather, columns):
    P, random = sides(case, gather)
    x = jnp.asarray(random.standard_normal((P.shape[1], columns)), np.float32)
    run = jax.jit(functools.partial(_cuda.product, gather=gather, deterministic=True, **case.block))
    first = np.asarray(run(*case.operands, x))
    for _ in range(10):
        np.testing.assert_array_equal(first, run(*case.operands, x))


@cases
def test_counts_positions_and_pattern(case):
    counts = case.pattern.sum(1)
    np.testing.assert_array_equal(jax.jit(functools.partial(_cuda.count, **case.block))(*case.operands), counts)
    np.testing.assert_array_equal(jax.jit(functools.partial(_cuda.dense, **case.block))(*case.operands), case.pattern)
    starts = jnp.asarray(np.cumsum(counts) - counts, np.int32)
    capacity = int(counts.sum()) + 3
    fill = jax.jit(functools.partial(_cuda.fill, capacity=capacity, **case.block))
    expected = np.concatenate([np.nonzero(case.pattern)[1], np.zeros(3, int)])
    np.testing.assert_array_equal(fill(*case.operands, starts), expected)


@gathers
@pytest.mark.parametrize("columns", [1, 20])
@pytest.mark.parametrize("kind", ["infinite", "of all sizes", "huge"])
def test_a_value_reaches_only_its_own_results(gather, columns, kind):
    """Neither an infinity (0 * inf is not 0) nor a large neighbour disturbs a sum that it has no part in."""
    case = Case(700, 1500, 0.05, seed=5)
    P, random = sides(case, gather)
    x = random.standard_normal((P.shape[1], columns)).astype(np.float32)
    if kind == "infinite":
        x[3], x[10], x[20] = np.inf, -np.inf, np.nan
    elif kind == "huge":
        x[5], x[50] = 3e38, -3e38
    else:
        x *= (10.0 ** random.uniform(-44, 30, x.shape)).astype(np.float32)
    y = case.product(x, gather)
    rows = [x[P[i] > 0].astype(np.float64) for i in range(P.shape[0])]
    with np.errstate(invalid="ignore"):
        expected, size = (np.array([f(row).sum(0) for row in rows]) for f in (np.asarray, np.abs))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(y[~finite], expected[~finite].astype(np.float32))
    with np.errstate(invalid="ignore"):
        assert (np.abs(y - expected)[finite] <= 1e-6 * size[finite] + 1e-44).all()


def test_inside_a_loop_and_a_cuda_graph():
    case = Case(1000, 1000, 0.1)
    x = jnp.asarray(np.random.default_rng(0).random((1000, 1)) < 0.1, np.uint8)

    def step(x, gather):
        y = _cuda.product(*case.operands, x, gather=gather, **case.block)
        return (y % 7 == 0).astype(np.uint8), y.sum()

    for gather in (True, False):
        one, expected, sums = jax.jit(functools.partial(step, gather=gather)), x, []
        for _ in range(40):
            expected, total = one(expected)
            sums.append(int(total))
        for unroll in (1, 8):
            loop = jax.jit(lambda x: jax.lax.scan(lambda x, _: step(x, gather), x, None, length=40, unroll=unroll))  # noqa: B023
            for _ in range(3):
                last, totals = loop(x)
                np.testing.assert_array_equal(last, expected)
                assert totals.tolist() == sums


def test_every_gpu_computes_the_same():
    case = Case(2500, 20000, 0.1)
    x = np.random.default_rng(0).standard_normal((20000, 20)).astype(np.float32)
    for gather, side in ((True, x), (False, x[:2500])):
        for columns in (1, 20):
            run = jax.jit(functools.partial(_cuda.product, gather=gather, deterministic=True, **case.block))
            results = [
                np.asarray(run(*jax.device_put((*case.operands, jnp.asarray(side[:, :columns])), device)))
                for device in jax.devices("gpu")
            ]
            for result in results[1:]:
                np.testing.assert_array_equal(results[0], result)


PROGRAM = """
import jax.numpy as jnp
from jitmat import JITScalarMatrix
W = JITScalarMatrix(1.0, 0.1, 42, shape=(300, 400))
print(int((W @ jnp.ones(400, bool)).sum()), W.nnz)
"""


def start(**environment):
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)


def check(process):
    total, nnz = process.communicate(timeout=300)[0].split()
    assert process.returncode == 0
    assert int(total) == int(nnz) > 11000


def test_eight_processes_share_an_empty_cache(tmp_path):
    for process in [start(JITMAT_CACHE_DIR=str(tmp_path)) for _ in range(8)]:
        check(process)
    names = [path.name for path in (tmp_path / "cubin").iterdir()]
    assert {len(name) for name in names} == {64}  # hashes alone, nothing half written


def test_a_killed_process_leaves_a_cache_that_works(tmp_path):
    process = start(JITMAT_CACHE_DIR=str(tmp_path))
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    check(start(JITMAT_CACHE_DIR=str(tmp_path)))


def test_spoiled_and_missing_caches_only_cost_time(tmp_path):
    check(start(JITMAT_CACHE_DIR=str(tmp_path)))
    for file in (tmp_path / "cubin").iterdir():
        file.write_bytes(file.read_bytes()[:1000])
    check(start(JITMAT_CACHE_DIR=str(tmp_path)))
    check(start(JITMAT_CACHE_DIR="/proc/none"))

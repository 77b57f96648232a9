"""Nothing dense, nothing stored: products, gradients, batches and counts of a huge matrix take O(m + n) memory."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from jitmat import JITScalarMatrix

HUGE = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jitmat import JITScalarMatrix

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

def loss(W, x):
    return (W @ x).sum()

def work(n, prob, corder):
    W = JITScalarMatrix(0.5, prob, 2**40 + 1, shape=(n, n), corder=corder)
    x = jnp.asarray(np.arange(n) % 7, jnp.float32)
    product, left, events = W @ x, x @ W, W @ (x > 5)
    by_weight, by_operand = jax.grad(loss, argnums=(0, 1))(W, x)
    batch = jax.vmap(lambda z: W @ z)(jnp.stack([x, -x]))
    return [product, left, events, by_operand, batch[1]], float(by_weight.data), W.nnz

corder = bool(int(sys.argv[1]))
work(1000, 0.01, corder)
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = peak()
arrays, by_weight, nnz = work(10**6, 1e-5, corder)
grown = peak() - before
rows = {str(r): [float(a[r]) for a in arrays] for r in (0, 1, 16383, 16384, 499_999, 983_040, 999_999)}
results = {"rows": rows, "by_weight": by_weight, "nnz": nnz, "sum": float(np.asarray(arrays[0]).sum(dtype=float))}
results["grown"] = grown
print(json.dumps(results))
"""


@pytest.mark.parametrize("corder", [False, True])
def test_a_million_square_takes_less_than_100_megabytes(corder):
    """Beyond a process that ran the same on a 1000-square; rows checked one by one against the definition."""
    run = subprocess.run([sys.executable, "-c", HUGE, str(int(corder))], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["grown"] < 100
    n, prob, seed = 10**6, 1e-5, 2**40 + 1
    x = np.arange(n) % 7
    assert abs(told["nnz"] - n * n * prob) < 6 * np.sqrt(n * n * prob)
    for r, (product, left, by_events, by_operand, negative) in told["rows"].items():
        found = reference.positions_of(int(r), n, prob, seed)  # of stream r: a row or a column
        total = 0.5 * x[found].sum()
        if corder:
            assert (product, negative, by_events) == (total, -total, 0.5 * (x[found] > 5).sum())
        else:
            assert (left, by_operand) == (total, 0.5 * len(found))
    assert abs(told["by_weight"] - 2 * told["sum"]) < 1e-5 * told["by_weight"]


@pytest.mark.parametrize("corder", [False, True])
def test_rows_and_columns_across_the_streams_agree_with_the_inverse(corder):
    """A line across a million streams: one inverse permutation each, against a product with a unit vector."""
    n, prob, line = 10**6, 1e-4, 777_777
    W = JITScalarMatrix(1.0, prob, 5, shape=(n, n), corder=corder)
    unit = jnp.zeros(n).at[line].set(1)
    across = np.flatnonzero(np.asarray(W @ unit if corder else unit @ W))
    streams = np.unique(np.concatenate([across[:40], np.arange(200)]))
    bits = reference.block_bits(n)
    u, words = reference.keys(5, streams, line >> bits)
    place = np.full((len(streams), 1), line & (2**bits - 1))
    holds = reference.invert(place, bits, words)[:, 0] < reference.count(u, bits, prob)
    np.testing.assert_array_equal(holds, np.isin(streams, across))
    assert holds.any()


def test_no_buffer_of_a_program_is_larger_than_its_operands():
    n = 20_000
    W = JITScalarMatrix(0.5, 0.01, 3, shape=(n, n))
    x = jnp.ones(n)
    for function in (
        lambda W, x: W @ x,
        jax.grad(lambda W, x: (W @ x).sum()),
        lambda W, x: jax.vmap(W.__matmul__)(x[None]),
    ):
        memory = jax.jit(function).lower(W, x).compile().memory_analysis()
        parts = 0 if jax.default_backend() == "cpu" else 1 << 25  # of multiprocessors, whatever the matrix
        assert memory.temp_size_in_bytes + memory.output_size_in_bytes < 20 * 4 * n + parts


def test_products_of_more_than_2_31_entries_are_right():
    """(3, 2^28): n * m beyond 32 bits of bits, blocks by the thousand; counts are checked against stored rows."""
    n = 2**28 + 8
    W = JITScalarMatrix(1, 1e-6, 3, shape=(3, n), corder=True)
    rows = [reference_row(stream, n, 1e-6) for stream in range(3)]
    np.testing.assert_array_equal(W.tocsr().indices, np.concatenate(rows))
    events = np.zeros(n, bool)
    events[rows[1]] = True
    np.testing.assert_array_equal(W @ events, [np.isin(row, rows[1]).sum() for row in rows])


def reference_row(stream, n, prob, seed=3):
    """`reference.positions_of` for a long row: only the blocks that draw anything are permuted."""
    bits = reference.block_bits(n)
    blocks = np.arange(-(-n >> bits))
    found = []
    for block in blocks:
        u, words = reference.keys(seed, stream, block)
        drawn = reference.count(u, bits, prob)[0]
        if drawn:
            found.append(
                np.sort(reference.permute(np.arange(drawn), bits, words)[0].astype(np.int64)) + (block << bits)
            )
    found = np.concatenate([np.zeros(0, np.int64), *found])
    return found[found < n]


@pytest.mark.slow
@pytest.mark.parametrize("corder", [False, True])
def test_axes_beyond_2_31_are_right(corder):
    n, prob = 2**31 + 8, 1e-8
    W = JITScalarMatrix(1, prob, 3, shape=(3, n), corder=corder)
    events = np.zeros(n, bool)
    if corder:
        rows = [reference_row(stream, n, prob) for stream in range(3)]
        stored = W.tocsr()
        assert stored.indices.dtype == np.int64
        np.testing.assert_array_equal(stored.indices, np.concatenate(rows))
        events[rows[1]] = events[-1] = True
        np.testing.assert_array_equal(W @ events, [np.isin(row, np.flatnonzero(events)).sum() for row in rows])
    else:
        events[[0, 2**31 - 1, 2**31, n - 1]] = True
        dense = reference.streams_of(np.flatnonzero(events), 3, 0.5, 3)
        half = JITScalarMatrix(1, 0.5, 3, shape=(3, n))
        np.testing.assert_array_equal(half @ events, dense.sum(axis=0))

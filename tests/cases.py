"""The one list of cases, and the covering of their pairs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmat import jitsmv_p

BACKENDS = jitsmv_p.available_backends()  # of this platform
on_cpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="about the CPU's own backend")
COMPILED = next(backend for backend in BACKENDS if backend != "jax")
LENGTHS = (0, 1, 511, 512, 513, 877, 878, 1000, 4000, 4096, 5000)  # of the walked axis
STREAMS = (0, 1, 7, 70, 300)
PROBS = (0.0, 1e-4, 0.003, 0.1, 0.3, 0.7, 0.99, 1.0)
SEEDS = (0, -1, 2**31, 2**40 + 1, 2**64 - 1)
DTYPES = ("bool", "int8", "int32", "float16", "bfloat16", "float32", "float64", "complex64")
AXES = {
    "length": LENGTHS,
    "streams": STREAMS,
    "corder": (False, True),
    "prob": PROBS,
    "seed": SEEDS,
    "dtype": DTYPES,
    "x64": (False, True),
}


def covering(**axes):
    """A short list of dicts in which any two values of any two axes meet, the same list every time."""
    names = list(axes)
    pairs = list(itertools.combinations(names, 2))
    missing = dict.fromkeys((a, x, b, y) for a, b in pairs for x in axes[a] for y in axes[b])
    uses = {(name, value): 0 for name in names for value in axes[name]}
    rows = []
    while missing:
        a, x, b, y = next(iter(missing))
        row = {a: x, b: y}
        for name in names:
            if name not in row:
                row[name] = max(axes[name], key=lambda v: (_gain(missing, row, name, v), -uses[name, v]))
        for a, b in pairs:
            missing.pop((a, row[a], b, row[b]), None)
        for item in row.items():
            uses[item] += 1
        rows.append({name: row[name] for name in names})
    return rows


def _gain(missing, row, name, value):
    """How many missing pairs `value` would meet in this row."""
    return sum((name, value, *item) in missing or (*item, name, value) in missing for item in row.items())


def grid(**axes):
    """Every combination."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def name_of(case):
    return "-".join(f"{value:g}" if isinstance(value, float) else str(value) for value in case.values())


def shape_of(case):
    streams, length = case["streams"], case["length"]
    return (streams, length) if case["corder"] else (length, streams)


def operand(shape, dtype, seed=0):
    """Small whole numbers (half of them 0) in any dtype: sums are exact in every order, so results have one value."""
    values = np.random.default_rng(seed).integers(-2, 3, shape)
    values[np.random.default_rng(seed + 1).random(shape) < 0.4] = 0
    if dtype == "bool":
        return values != 0
    if dtype.startswith("complex"):
        return (values + 1j * values[::-1]).astype(dtype)
    return values.astype(jnp.dtype(dtype))

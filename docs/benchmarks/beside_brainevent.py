"""brainevent 0.3.0 and jitmat on the same connections: 200 random cases compared, and the time of each.

    pip install jitmat brainevent==0.3.0      # Python 3.12 or later
    python docs/benchmarks/beside_brainevent.py [--cases 200] [--seed 0] [--no-times]

Every case draws a probability, a seed and an operand, and every fifth a new shape and both flags (brainevent compiles
its kernels for each: some 8 s). The entries of the dense matrix must be equal, and so must the rest of the case:
a product of floats or events with a vector or a matrix, with its derivatives, to rounding; or the stored form of a
class, index for index.
"""

import argparse
import functools
import itertools
import time

import brainevent
import jax
import jax.numpy as jnp
import numpy as np

import jitmat.compat

PRODUCTS = ("jitsmv", "jitsmm", "binary_jitsmv", "binary_jitsmm")
LIBRARIES = (brainevent, jitmat.compat)
PER_SHAPE = 5


def equal(what, a, b):
    if not np.array_equal(a, b):
        raise SystemExit(f"{what} differs")


def close(what, a, b, scale):
    if not np.allclose(a, b, rtol=1e-5, atol=1e-5 * scale):
        raise SystemExit(f"{what} differs by {np.max(np.abs(np.asarray(a) - np.asarray(b)))}")


def draw_geometry(rng):
    shape = tuple(int(size) for size in rng.integers(1, 2001, 2))
    return {"shape": shape, "transpose": bool(rng.integers(2)), "corder": bool(rng.integers(2))}


def check_dense(prob, seed, flags, rng):
    theirs, ours = (library.jits(1.0, prob, seed, **flags) for library in LIBRARIES)
    equal("an entry", np.asarray(theirs) != 0, np.asarray(ours) != 0)
    return np.count_nonzero(ours)


def check_stored(prob, seed, flags, rng):
    name = ("JITCScalarR", "JITCScalarC")[rng.integers(2)]
    theirs, ours = (
        getattr(library, name)((1.5, prob, seed), shape=flags["shape"], corder=flags["corder"])
        for library in LIBRARIES
    )
    theirs, ours = (theirs.T.tocsr(), ours.T.tocsr()) if flags["transpose"] else (theirs.tocsr(), ours.tocsr())
    for part in ("indptr", "indices", "data"):
        equal(f"{part} of {name}", getattr(theirs, part), getattr(ours, part))


def check_product(name, prob, seed, flags, rng):
    size = flags["shape"][0 if flags["transpose"] else 1]
    x = rng.random((size, 5) if name.endswith("mm") else size, dtype=np.float32)
    x = jnp.asarray(np.where(x < 0.3, x, 0) if name.startswith("binary") else x)
    results = []
    for library in LIBRARIES:
        function = functools.partial(getattr(library, name), seed=seed, **flags)
        y, pull = jax.vjp(lambda w, x, function=function: function(w, prob, x), jnp.float32(1.5), x)
        results.append((y, *pull(jnp.ones_like(y))))
    for what, theirs, ours in zip(("value", "cotangent of the weight", "cotangent of x"), *results, strict=True):
        close(f"{what} of {name}", theirs, ours, max(1.0, float(jnp.max(jnp.abs(theirs), initial=0.0))))


CHECKS = [*(functools.partial(check_product, name) for name in PRODUCTS), check_stored]


def compare(cases, seed):
    rng, nonzeros, flags = np.random.default_rng(seed), 0, {}
    for case in range(cases):
        if case % PER_SHAPE == 0:
            flags = draw_geometry(rng)
        prob, number = float(np.exp(rng.uniform(np.log(1e-3), 0))), int(rng.integers(-(2**31), 2**31))
        try:
            nonzeros += check_dense(prob, number, flags, rng)
            CHECKS[case // PER_SHAPE % len(CHECKS)](prob, number, flags, rng)
        except SystemExit as difference:
            raise SystemExit(f"case {case}: prob={prob}, seed={number}, {flags}: {difference}") from None
    print(f"{cases} random cases: all {nonzeros:,} nonzeros in the same places, all values equal to rounding")


def milliseconds(functions, *args, repeats=25):
    """The best time of each function, called in turn so that a busy machine is busy for all."""
    functions = [jax.jit(function) for function in functions]
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(function(*args))
            taken.append(1e3 * (time.perf_counter() - start))
    return [min(taken) for taken in times]


def times(size, prob, columns=10):
    """The same jitted products: brainevent, jitmat on brainevent's walk, jitmat on its own."""
    print(f"\n{size} x {size}, prob {prob}, {columns} columns, a tenth of the events active; ms")
    print(f"{'':24}{'brainevent':>12}{'renewal':>12}{'bernoulli':>12}")
    rng = np.random.default_rng(0)
    for name, corder in itertools.product(PRODUCTS, (True, False)):
        x = rng.random((size, columns) if name.endswith("mm") else size, dtype=np.float32)
        x = jnp.asarray(x < 0.1 if name.startswith("binary") else x)
        products = [getattr(library, name) for library in (*LIBRARIES, jitmat)]
        calls = [
            lambda w, x, product=product, corder=corder: product(w, prob, x, 1, shape=(size, size), corder=corder)
            for product in products
        ]
        row = milliseconds(calls, jnp.float32(1.5), x)
        print(f"{name}, {'gather' if corder else 'scatter'}".ljust(24) + "".join(f"{t:12.3f}" for t in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-times", action="store_true")
    arguments = parser.parse_args()
    print(f"brainevent {brainevent.__version__}, jitmat {jitmat.__version__}, jax {jax.__version__}, on the CPU")
    if arguments.cases:
        compare(arguments.cases, arguments.seed)
    if not arguments.no_times:
        for size, prob in ((2000, 0.1), (10000, 0.01)):
            times(size, prob)


if __name__ == "__main__":
    main()

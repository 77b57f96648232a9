"""How fast a product is on a GPU, beside brainevent and a matrix that cuSPARSE has stored.

Run `python docs/benchmarks/gpu.py` on a machine with an NVIDIA GPU; brainevent and cupy are compared where they
are installed. Times are medians in milliseconds of one product inside a jitted loop, so that dispatch is shared;
`eager` is the wall time of one call from Python. `--quick` leaves the largest matrix out; the names of parts
(vectors, matrices, renewal, activity, steps) choose among them.
"""

import functools
import importlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jitmat.compat

QUICK = "--quick" in sys.argv
SIZES = [(20_000, 0.1, 0.02), (100_000, 0.01, 0.02), (1_000_000, 0.001, 0.01)][: 2 if QUICK else 3]
COLUMNS = 64


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


brainevent, cupy = library("brainevent"), library("cupy")
if brainevent:
    brainevent.config.prefer_system_nvcc()


def wall(run, repeats=7):
    """Median seconds of `run`, warmed up."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def loop(product, steps):
    """A function of x: milliseconds of one product in a loop, each waiting for the one before by one entry of x."""

    def step(x, _):
        y = product(x).ravel()[0]
        first = x.ravel()[0]
        return x.at[(0,) * x.ndim].set(first ^ (y < -1) if x.dtype == bool else first + 0 * y), None

    run = jax.jit(lambda x: jax.lax.scan(step, x, None, length=steps, unroll=8)[0])
    return lambda x: wall(lambda: run(x)) / steps * 1e3


def attempt(f):
    """A figure, or the error's name where a library refuses or fails."""
    try:
        return f"{f():.4f}"
    except Exception as error:
        return type(error).__name__


def ours_and_theirs(name, n, prob, x, corder, lib=jitmat):
    kind = ("binary_" if x.dtype == bool else "") + ("jitsmv" if x.ndim == 1 else "jitsmm")

    def product(lib):
        return lambda x: getattr(lib, kind)(1.0, prob, x, 42, shape=(n, n), corder=corder)

    steps = (
        256 if x.dtype == bool and not corder and x.ndim == 1 else 16 if n * x.size >= 10**12 or x.ndim == 2 else 64
    )
    ours = attempt(lambda: loop(product(lib), steps)(x))
    theirs = attempt(lambda: loop(product(brainevent), steps)(x)) if brainevent else "-"
    run = jax.jit(product(lib))
    eager = f"{wall(lambda: run(x)) * 1e3:.4f}"
    return [name, f"{n:,}", f"{prob:g}", ours, theirs, eager]


def cusparse(n, prob, x):
    """Milliseconds of a CSR product; the matrix has as many nonzeros, in random places."""
    if not cupy:
        return "-"
    from cupyx.scipy.sparse import csr_matrix

    per_row = int(n * prob)
    indices = cupy.random.randint(0, n, n * per_row, dtype=np.int32)
    pointers = cupy.arange(n + 1, dtype=np.int64 if n * per_row >= 2**31 else np.int32) * per_row
    stored = csr_matrix((cupy.ones(n * per_row, np.float32), indices, pointers), shape=(n, n))
    dense = cupy.asarray(np.asarray(x, np.float32))
    return event_time(lambda: stored @ dense)


def event_time(run, repeats=10):
    run()
    times = []
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end))
    return f"{statistics.median(times):.4f}"


def table(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def vectors(random):
    head = ["product", "n", "prob", "jitmat", "brainevent", "eager", "cuSPARSE CSR"]
    rows = []
    for n, prob, active in SIZES:
        x = jnp.asarray(random.random(n), jnp.float32)
        stored, alone = cusparse(n, prob, x), attempt(lambda x=x: loop(lambda x: 2 * x, 64)(x))
        rows.append(["the loop with 2 * x instead", f"{n:,}", "-", alone, "-", "-", "-"])
        for corder, way in ((True, "gather"), (False, "scatter")):
            rows.append([*ours_and_theirs(f"float {way}", n, prob, x, corder), stored])
            rows.append([*ours_and_theirs(f"binary {way}, {active:.0%} active", n, prob, x < active, corder), stored])
        rows.append([*ours_and_theirs("binary gather, 30% active", n, prob, x < 0.3, True), stored])
    table("Products with a vector, ms", head, rows)


def matrices(random):
    head = ["product", "n", "prob", "jitmat", "brainevent", "eager", "cuSPARSE CSR", "stored dense float32"]
    rows = []
    n, prob, _ = SIZES[0]
    x = jnp.asarray(random.standard_normal((n, COLUMNS)), jnp.float32)
    stored, dense = cusparse(n, prob, x), "-"
    if cupy:
        left, right = cupy.ones((n, n), np.float32), cupy.asarray(np.asarray(x))
        dense = event_time(lambda: left @ right)
        del left
    for corder, way in ((True, "gather"), (False, "scatter")):
        for kind, operand in (("float", x), ("binary, 10% active", x > 1.2816)):
            rows.append(
                [*ours_and_theirs(f"{kind} {way}, {COLUMNS} columns", n, prob, operand, corder), stored, dense]
            )
    table("Products with a matrix, ms", head, rows)


def renewal(random):
    """The same connections in both libraries."""
    rows = []
    for n, prob, active in SIZES:
        x = jnp.asarray(random.random(n), jnp.float32)
        for corder, way in ((True, "gather"), (False, "scatter")):
            rows.append(ours_and_theirs(f"float {way}", n, prob, x, corder, jitmat.compat))
            rows.append(ours_and_theirs(f"binary {way}, {active:.0%}", n, prob, x < active, corder, jitmat.compat))
    n, prob, _ = SIZES[0]
    X = jnp.asarray(random.standard_normal((n, COLUMNS)), jnp.float32)
    for corder, way in ((True, "gather"), (False, "scatter")):
        rows.append(ours_and_theirs(f"float {way}, {COLUMNS} columns", n, prob, X, corder, jitmat.compat))
    head = ["product", "n", "prob", "jitmat.compat", "brainevent", "eager"]
    table("Products of the renewal walk, ms", head, rows)


def activity(random):
    rows = []
    fractions = (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0)
    for n, prob, _ in SIZES:
        x = random.random(n)
        for corder, way in ((False, "scatter"), (True, "gather")):
            product = functools.partial(jitmat.binary_jitsmv, 1.0, prob, seed=42, shape=(n, n), corder=corder)
            timed = loop(lambda x, product=product: product(vector=x), 16 if n >= 10**6 else 64)
            rows.append([way, f"{n:,}", f"{prob:g}", *(f"{timed(jnp.asarray(x < f)):.4f}" for f in fractions)])
    table("Binary products by the fraction of active entries, ms", ["", "n", "prob", *map(str, fractions)], rows)


def steps(random):
    n, rows = 1000, []
    x = jnp.asarray(random.random(n), jnp.float32)
    ops = {"elementwise": jnp.sin}
    for lib in (jitmat, brainevent):
        if lib is None:
            continue
        for corder, way in ((True, "gather"), (False, "scatter")):
            ops[f"{lib.__name__}, float {way}"] = functools.partial(
                lambda v, f, c: f(0.01, 0.1, v, 42, shape=(n, n), corder=c), f=lib.jitsmv, c=corder
            )
            ops[f"{lib.__name__}, binary {way}, 2% active"] = functools.partial(
                lambda v, f, c: f(0.01, 0.1, v > 0.98, 42, shape=(n, n), corder=c), f=lib.binary_jitsmv, c=corder
            )
    for name, op in ops.items():
        row = [name]
        for unroll in (1, 8):
            step = lambda v, _, op=op: (0.9 * v + 0.1 * op(v), None)
            scan = jax.jit(lambda v, s=step, u=unroll: jax.lax.scan(s, v, None, length=1000, unroll=u)[0])
            row.append(attempt(lambda scan=scan: wall(lambda: scan(x)) * 1e3))
        rows.append(row)
    table("A step of a scan over 1000 neurons, prob 0.1, us", ["", "unroll=1", "unroll=8"], rows)


if __name__ == "__main__":
    versions = {lib.__name__: lib.__version__ for lib in (jax, brainevent, cupy) if lib}
    print(jax.devices()[0].device_kind, *(f"{name} {version}" for name, version in versions.items()), sep=", ")
    random = np.random.default_rng(0)
    parts = (vectors, matrices, renewal, activity, steps)
    for part in [part for part in parts if part.__name__ in sys.argv] or parts:
        part(random)

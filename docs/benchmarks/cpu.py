"""Products on the CPU beside stored matrices and brainevent, in one run: medians, and ratios against each peer.

    python docs/benchmarks/cpu.py                     # the table of docs/speed.md
    python docs/benchmarks/cpu.py --quick             # does it run?
    python docs/benchmarks/cpu.py --threads 1 --json results.json

A cell is (n, p) and a product: `gather` is float W @ x with a stream per row, `scatter` the same with a stream per
column, `binary` takes booleans of which a share `rate` is active, `mm` has 16 columns. Times are ns per nonzero of the
matrix (and column), whatever the rate. Peers have as many nonzeros: scipy's CSR (float32), JAX's BCSR and brainevent
0.3 where it is installed. A matrix of more nonzeros than --limit is replaced by a block of its rows, or columns.
"""

import argparse
import json
import os
import pathlib
import platform
import sys

SIZES = (1000, 4000, 20_000, 100_000, 1_000_000)
PROBS = (1e-4, 1e-3, 0.01, 0.1, 0.3)
RATES = (0.0, 0.001, 0.02, 0.2, 1.0)
COLUMNS = 16


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small cells, one repeat")
    parser.add_argument("--threads", type=int, help="CPUs to run on (default: all)")
    parser.add_argument("--limit", type=float, default=2e7, help="most nonzeros of a cell (default 2e7)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="the n of the grid")
    parser.add_argument("--probs", type=float, nargs="+", default=PROBS, help="the p of the grid")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path, help="write the results there too")
    parser.add_argument("--no-peers", action="store_true", help="jitmat alone")
    return parser.parse_args()


def cells(options):
    """(n, p, rate, product) of every cell; rate None is a float product."""
    if options.quick:
        return [(1000, 0.1, None, "gather"), (1000, 0.1, 0.02, "scatter")]
    products = [("gather", None), ("scatter", None), ("mm gather", None), ("mm scatter", None)]
    products += [("gather", 0.2), ("scatter", 0.02), ("mm gather", 0.2)]
    grid = [
        (n, p, rate, product) for n in options.sizes for p in options.probs for product, rate in products if n * p >= 1
    ]
    swept = 20_000 in options.sizes and 0.01 in options.probs
    sweep = [(20_000, 0.01, rate, product) for rate in RATES for product in ("gather", "scatter") if swept]
    return grid + [cell for cell in sweep if cell not in grid]


def measure(n, p, rate, product, options):
    """Seconds of one cell for every library, and jitmat's peak memory."""
    import jax
    import numpy as np

    import jitmat
    from jitmat._bench import peak_memory, seconds

    gather = product.endswith("gather")
    block = int(max(16, min(n, options.limit / (n * p))))
    shape = (block, n) if gather else (n, block)
    rng = np.random.default_rng(0)
    size = (shape[1], COLUMNS) if product.startswith("mm") else (shape[1],)
    x = rng.random(size) < rate if rate is not None else rng.standard_normal(size).astype(np.float32)
    operand = jax.numpy.asarray(x)
    W = jitmat.JITScalarMatrix(np.float32(0.5), p, 1, shape=shape, corder=gather)
    multiply = jax.jit(lambda W, x: W @ x)
    result = {"n": n, "p": p, "rate": rate, "product": product, "shape": shape}
    result["jitmat"] = seconds(lambda: multiply(W, operand), options.repeats)
    result["memory"] = peak_memory(lambda: multiply(W, operand))
    if not options.no_peers:
        for name, function in peers(W, x, rate is not None):
            result[name] = seconds(function, options.repeats)
    return result


def peers(W, x, binary):
    """(name, a call of the same product) of every peer that is installed."""
    import jax
    import numpy as np
    from jax.experimental import sparse

    from jitmat._bench import libraries

    stored = W.tocsr()
    for name, _, prepare in libraries(W, stored, x, binary):
        if name in ("scipy", "brainevent"):
            yield name, prepare()
    bcsr = sparse.BCSR.from_scipy_sparse(stored)
    by_bcsr = jax.jit(lambda A, x: A @ x)
    jax_x = jax.numpy.asarray(x.astype(np.float32))
    if stored.nnz <= 2_000_000:  # it takes seconds beyond
        yield "BCSR", lambda: by_bcsr(bcsr, jax_x)
    if W.shape[0] == W.shape[1] == 4000:
        dense = W.todense()
        by_dense = jax.jit(lambda A, x: A @ x)
        yield "dense", lambda: by_dense(dense, jax_x)


def table(results):
    """Markdown, a row per cell."""
    names = [name for name in ("scipy", "brainevent", "BCSR", "dense") if any(name in r for r in results)]
    yield (
        "| n | p | product | events | block | jitmat ms | ns per nonzero | peak MB | "
        + " | ".join(f"{name} / jitmat" for name in names)
        + " |"
    )
    yield "|" + "---|" * (8 + len(names))
    for r in results:
        columns = COLUMNS if r["product"].startswith("mm") else 1
        nonzeros = r["shape"][0] * r["shape"][1] * r["p"] * columns
        ratios = [f"{r[name] / r['jitmat']:.2f}" if name in r else "" for name in names]
        memory = "" if r["memory"] is None else f"{r['memory'] / 1e6:.1f}"
        events = "float" if r["rate"] is None else f"{r['rate']:g}"
        block = f"{r['shape'][0]} x {r['shape'][1]}"
        time_ms, time_ns = f"{r['jitmat'] * 1e3:.4g}", f"{r['jitmat'] / nonzeros * 1e9:.3f}"
        cells = [f"{r['n']}", f"{r['p']:g}", r["product"], events, block, time_ms, time_ns, memory, *ratios]
        yield "| " + " | ".join(cells) + " |"


def main():
    options = arguments()
    if options.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    if options.quick:
        options.repeats, options.limit = 1, 1e5
    import jax

    threads = len(os.sched_getaffinity(0))
    print(f"{platform.processor() or platform.machine()}, {threads} threads, jax {jax.__version__}", file=sys.stderr)
    results = []
    for cell in cells(options):
        results.append(measure(*cell, options))
        print(results[-1], file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results))
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()

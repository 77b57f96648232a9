"""How fast are this machine's products, beside a stored matrix and the other libraries that are installed?"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from ._arguments import add_backend, number, seed, size
from ._demo import readable_bytes
from ._matrix import JITScalarMatrix
from ._products import jitsmv_p

SUMMARY = "time every product beside scipy's, and beside brainevent's and cuSPARSE's where they are installed"
DESCRIPTION = """\
Time the products of one JITScalarMatrix, and the same products of peers: scipy's CSR (on the CPU), brainevent, and
cuSPARSE through cupy, where they are installed. Nothing has to be chosen: `jitmat bench` takes half a minute.

A figure is the median time of a call in nanoseconds per nonzero of the matrix (and column of the operand): a product
that skips silent columns has a small one. In brackets, how many times as long as jitmat a peer took. x is a float32
vector, X has 16 columns, s are events of which some are active; "by rows" has a stream per row (corder=True, the
product gathers), "by columns" a stream per column (corder=False, it scatters).

The last rows are memory: of the matrix itself, and the most that a call added to the process's peak (on a CPU under
Linux)."""

COLUMNS = 16
MOST_STORED = 10**8  # nonzeros that are stored for the peers' sake


class Product(NamedTuple):
    """W @ operand: whether a stream is a row, the share of active events (None: floats), columns of the operand."""

    name: str
    corder: bool
    active: float | None = None
    columns: int | None = None

    def operand(self, n: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        shape = (n,) if self.columns is None else (n, self.columns)
        return rng.standard_normal(shape, np.float32) if self.active is None else rng.random(shape) < self.active


PRODUCTS = (
    Product("W @ x, by rows", True),
    Product("W @ x, by columns", False),
    Product("W @ s, 20% active, by rows", True, 0.2),
    Product("W @ s, 2% active, by columns", False, 0.02),
    Product("W @ X, by rows", True, None, COLUMNS),
    Product("W @ X, by columns", False, None, COLUMNS),
)


def add_arguments(parser: argparse.ArgumentParser):
    """The options of this subcommand."""
    parser.add_argument(
        "--shape", type=size, nargs=2, default=(20_000, 20_000), metavar=("M", "N"), help="default: 20000 20000"
    )
    parser.add_argument("--prob", type=number(0, 1), default=0.01, help="probability of a nonzero (default: 0.01)")
    parser.add_argument("--seed", type=seed, default=1, help="an integer in [-2^63, 2^64) (default: 1)")
    parser.add_argument("--repeats", type=number(1, 1000), default=7, metavar="R", help="of a timing (default: 7)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON in place of the table")
    add_backend(parser)


def run(args) -> int:
    """Measure, print."""
    matrices = {
        corder: JITScalarMatrix(
            np.float32(0.5), args.prob, args.seed, shape=tuple(args.shape), corder=corder, backend=args.backend
        )
        for corder in (True, False)
    }
    nnz = {corder: W.nnz for corder, W in matrices.items()}
    if not all(nnz.values()):
        raise ValueError(f"nothing to time: {matrices[True]} has no nonzeros")
    results = [result for corder, W in matrices.items() for result in measure(W, nnz[corder], int(args.repeats))]
    _progress("")
    notes = dict.fromkeys(result["error"] for result in results if "error" in result)
    if max(nnz.values()) > MOST_STORED:
        notes[f"scipy and cuSPARSE are left out: they would store {readable_bytes(8 * max(nnz.values()))}"] = None
    matrix = {"shape": list(args.shape), "prob": args.prob, "seed": args.seed}
    matrix |= {"nonzeros": {"by rows": nnz[True], "by columns": nnz[False]}}
    report = {"machine": _machine(args.backend), "matrix": matrix, "results": results, "notes": [*notes]}
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        _show(report)
    return 0


def measure(W: JITScalarMatrix, nnz: int, repeats: int) -> Iterator[dict[str, Any]]:
    """A result for every library and every product with W's streams."""
    on_cpu = jax.default_backend() == "cpu"
    stored = W.tocsr() if nnz <= MOST_STORED else None
    for product in (product for product in PRODUCTS if product.corder is W.corder):
        x = product.operand(W.shape[1])
        for library, kept, prepare in libraries(W, stored, x, product.active is not None):
            _progress(f"{product.name}: {library}")
            result = {"product": product.name, "library": library, "matrix_bytes": kept}
            try:
                call = prepare()
                time_of_call = seconds(call, repeats)
                peak = peak_memory(call) if on_cpu else None
            except Exception as error:  # a peer that cannot run here is told of, not a reason to stop
                if library == "jitmat":
                    raise
                told = " ".join(str(error).split())[:100]
                yield result | {"error": f"{library} failed: {type(error).__name__}: {told}"}
                continue
            per_nonzero = time_of_call / (nnz * (product.columns or 1)) * 1e9
            yield result | {"seconds": time_of_call, "ns_per_nonzero": per_nonzero, "call_bytes": peak}


def libraries(W: JITScalarMatrix, stored, x: np.ndarray, binary: bool) -> Iterator[tuple[str, Any, Callable]]:
    """(name, bytes of the matrix, a function that gives the call W @ x) of every library that is here."""
    multiply, operand = jax.jit(lambda W, x: W @ x), jnp.asarray(x)
    kept = sum(leaf.nbytes for leaf in (*W._connectivity.structure(), W.weight))
    yield "jitmat", kept, lambda: lambda: multiply(W, operand)
    if _installed("brainevent"):
        yield "brainevent", None, lambda: _brainevent_call(W, operand, binary)
    if stored is None:
        return
    kept, floats = sum(part.nbytes for part in (stored.data, stored.indices, stored.indptr)), x.astype(np.float32)
    yield "scipy", kept, lambda: lambda: stored @ floats
    if jax.default_backend() == "gpu" and _installed("cupy"):
        yield "cuSPARSE", kept, lambda: _cusparse_call(stored, floats)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _brainevent_call(W, operand, binary: bool):
    import brainevent  # pyright: ignore[reportMissingImports]

    function = getattr(brainevent, f"{'binary_' if binary else ''}jits{'mm' if operand.ndim == 2 else 'mv'}")
    multiply = jax.jit(lambda x: function(0.5, W.prob, x, 1, shape=W.shape, transpose=False, corder=W.corder))
    return functools.partial(multiply, operand)


def _cusparse_call(stored, floats):
    import cupy  # pyright: ignore[reportMissingImports]
    import cupyx.scipy.sparse  # pyright: ignore[reportMissingImports]

    matrix, operand = cupyx.scipy.sparse.csr_matrix(stored), cupy.asarray(floats)

    def call():
        y = matrix @ operand
        cupy.cuda.get_current_stream().synchronize()
        return y

    return call


def seconds(function, repeats: int) -> float:
    """Median time of a call, after one that compiles; short calls are repeated within a measurement."""
    jax.block_until_ready(function())
    start = time.perf_counter()
    jax.block_until_ready(function())
    calls = max(1, int(2e-3 / max(time.perf_counter() - start, 1e-7)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(function())
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def peak_memory(function) -> int | None:
    """Bytes by which a call raises the process's peak; None where the system does not say."""
    status = pathlib.Path("/proc/self/status")
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        before = _field(status.read_text(), "VmRSS")
        jax.block_until_ready(function())
        return max(0, _field(status.read_text(), "VmHWM") - before)
    except OSError:
        return None


def _field(text, name):
    return int(text.split(name + ":")[1].split()[0]) * 1024


# -- what is printed ---------------------------------------------------------------------------------


def _machine(backend) -> dict[str, Any]:
    versions = {"jax": jax.__version__, "scipy": scipy.__version__}
    for package in ("brainevent", "cupy"):
        if _installed(package):
            versions[package] = _version(package)
    return {
        "device": jax.devices()[0].device_kind,
        "processor": platform.processor() or platform.machine(),
        "backend": backend or jitsmv_p.get_default(),
        "versions": versions,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # cupy's wheels carry the toolkit in their name
        return getattr(importlib.import_module(package), "__version__", "unknown")


def _show(report):
    """The table, by rich where that is installed and somebody watches."""
    matrix, machine = report["matrix"], report["machine"]
    m, n = matrix["shape"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    print(f"{m:,} x {n:,}, prob {matrix['prob']:g}: {matrix['nonzeros']['by rows']:,} nonzeros")
    print(f"{machine['backend']} on {machine['device']}; {versions}")
    print("ns per nonzero; in brackets, times jitmat's")
    head, rows = table(report["results"])
    if not (sys.stdout.isatty() and _by_rich(head, rows)):
        widths = [max(map(len, column)) for column in zip(head, *rows)]
        for row in (head, *rows):
            first, *rest = (cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            print("  ".join((first, *rest)).rstrip())
    for note in report["notes"]:
        print(note)


def _by_rich(head, rows) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return False
    shown = Table(box=box.SIMPLE_HEAD)
    for i, title in enumerate(head):
        shown.add_column(title, justify="right" if i else "left", style="bold" if title == "jitmat" else "")
    for i, row in enumerate(rows):
        shown.add_row(*row, end_section=i == len(rows) - 3)
    Console().print(shown)
    return True


def table(results) -> tuple[list[str], list[list[str]]]:
    """(head, rows): a row per product and two of memory, a column per library."""
    names = [*dict.fromkeys(result["library"] for result in results)]
    found = {(result["product"], result["library"]): result for result in results}
    rows = []
    for product in dict.fromkeys(result["product"] for result in results):
        ours = found[product, "jitmat"]
        rows.append([product, f"{ours['seconds'] * 1e3:.3g}", f"{ours['ns_per_nonzero']:.3g}"])
        for name in names[1:]:
            theirs = found[product, name]
            if "error" in theirs:
                rows[-1].append("failed")
            else:
                ratio = theirs["seconds"] / ours["seconds"]
                rows[-1].append(f"{theirs['ns_per_nonzero']:.3g} ({ratio:.{1 if ratio < 10 else 0}f}x)")
    for title, key in (("the matrix in memory", "matrix_bytes"), ("most that a call added", "call_bytes")):
        rows.append([title, ""])
        for name in names:
            most = [result.get(key) for result in results if result["library"] == name]
            known = [value for value in most if value is not None]
            rows[-1].append(readable_bytes(max(known)) if known else "-")
    return ["", "ms a call", *names], rows


def _progress(what: str):
    """What is being measured, on one line that is rewritten; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r{what:<60}", end="" if what else "\r", file=sys.stderr, flush=True)

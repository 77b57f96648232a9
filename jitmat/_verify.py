"""Does every product equal scipy's, computed with the stored pattern? Counts to the bit, sums to a rounding bound."""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ._arguments import add_backend, number, seed, size
from ._compute import Connectivity
from ._materialize import to_scipy, window
from ._matrix import JITScalarMatrix
from ._spikes import Spikes

SUMMARY = "compare every product of a matrix with scipy"
DESCRIPTION = """\
Compare every product of a JITScalarMatrix with scipy, and exit with 1 on a difference.

The pattern P is stored as a scipy array of int64 ones. Binary products must equal weight * (P @ s) to the bit. A
float result may differ from the exact weight * sum(x) by the rounding of k additions and one multiplication in any
order: |weight| * (k + 1) u / (1 - (k + 1) u) * sum(|x|), with k the nonzeros of the row and u half an ulp of 1.
Of a large matrix some rows and columns are stored: three windows, at the beginning, inside and at the end, that hold
--budget nonzeros together."""

BUDGET = 1 << 22
WEIGHT = 1.3  # no power of two, so that multiplying by it rounds
COLUMNS = 2
DENSITY = 0.1  # of events


def add_arguments(parser: argparse.ArgumentParser):
    """The options of this subcommand."""
    parser.add_argument("--shape", type=size, nargs=2, required=True, metavar=("M", "N"), help="rows and columns")
    parser.add_argument("--prob", type=number(0, 1), required=True, help="probability of a nonzero, in [0, 1]")
    parser.add_argument("--seed", type=seed, required=True, help="an integer in [-2^63, 2^64)")
    parser.add_argument(
        "--corder",
        choices=("C", "F", "both"),
        default="both",
        help="C: a stream per row (corder=True); F: a stream per column (corder=False); default: %(default)s",
    )
    parser.add_argument(
        "--budget", type=size, default=BUDGET, metavar="NNZ", help="nonzeros stored at once (default: %(default)s)"
    )
    add_backend(parser)


def run(args) -> int:
    """Print a table of all comparisons; 1 if one failed."""
    failed = total = 0
    for order in "CF" if args.corder == "both" else args.corder:
        W = JITScalarMatrix(
            WEIGHT, args.prob, args.seed, shape=tuple(args.shape), corder=order == "C", backend=args.backend
        )
        print(f"{W}\n{_describe(W)}\n  {'product':<9}{'results':>11}  {'bool':<14}{'Spikes':<14}float")
        found = list(checks(W, args.budget))
        for product in dict.fromkeys(check.product for check in found):
            group = [check for check in found if check.product == product]
            verdicts = "".join(f"{check.verdict:<14}" for check in group)
            print(f"  {product:<9}{group[0].results:>11,}  {verdicts}".rstrip())
        failed += sum(not check.passed for check in found)
        total += len(found)
    print("float: largest error over its bound; the others must equal scipy to the bit")
    print(f"{failed} of {total} comparisons FAILED" if failed else f"all {total} comparisons passed")
    return 1 if failed else 0


def _describe(W) -> str:
    m, n = W.shape
    expected, deviation = m * n * W.prob, math.sqrt(m * n * W.prob * (1 - W.prob))
    return f"  {W.nnz:,} nonzeros; prob asks for {expected:,.0f} +- {deviation:,.0f}"


class Check(NamedTuple):
    """One comparison: `difference` is a number of unequal results, or in floats the largest error over its bound."""

    product: str
    operand: str
    results: int
    difference: float

    @property
    def passed(self) -> bool:
        return self.difference <= 1 if self.operand == "float" else self.difference == 0

    @property
    def verdict(self) -> str:
        if self.operand == "float":
            return f"{self.difference:.3f}" if self.passed else f"{self.difference:.3g} FAILED"
        return "equal" if self.passed else f"{self.difference:,.0f} UNEQUAL"


# Products of A, which is W or W.T, with a vector x or a matrix X: (name for W, name for W.T, operand, formula)
FORMULAS = (
    ("W @ x", "W.T @ x", 1, lambda A, x: A @ x),
    ("x @ W.T", "x @ W", 1, lambda A, x: x @ A.T),
    ("W @ X", "W.T @ X", 2, lambda A, X: A @ X),
    ("X @ W.T", "X @ W", 2, lambda A, X: (_transpose(X) @ A.T).T),
)


def checks(W: JITScalarMatrix, budget: int = BUDGET):
    """Every comparison of W and W.T."""
    rng = np.random.default_rng(0)
    for transposed, A in enumerate((W, W.T)):
        P, at = stored(A, budget)
        for operand, (x, plain) in _operands(rng, A.shape[1]).items():
            expected = sums(P, plain) if operand == "float" else (P @ plain.astype(np.int64),)
            for *names, ndim, formula in FORMULAS:
                y = np.asarray(formula(A, x if ndim == 2 else _first_column(x)))[at]
                y = y if ndim == 2 else y[:, None]
                compare = over_bound if operand == "float" else unequal
                difference = compare(y, W.weight, *(part[:, : y.shape[1]] for part in expected))
                yield Check(names[transposed], operand, y.size, float(difference))
        if not transposed and W.size <= budget:
            yield Check("todense", "bool", W.size, unequal(np.asarray(W.todense()), W.weight, P.toarray()))


def stored(A: JITScalarMatrix, budget: int):
    """(some rows of the pattern as a CSR array of int64 ones, which they are): all, or windows within the budget."""
    chosen = windows(A, budget)
    parts = [rows(A._connectivity, window, A.backend) for window in chosen]
    return scipy.sparse.vstack(parts, format="csr"), np.r_[*chosen]


def windows(A: JITScalarMatrix, budget: int) -> list[slice]:
    """The rows of A to store: all of them, or three windows within the budget."""
    m, n = A.shape
    per_row = max(n * A.prob, 1.0)
    if m * per_row <= budget or m < 3:
        return [slice(0, m)]
    count = min(max(1, int(budget / 3 / per_row)), m // 3)
    inside = count + int(0.618 * (m - 3 * count))
    return [slice(first, first + count) for first in (0, inside, m - count)]


def rows(connectivity: Connectivity, chosen: slice, backend=None):
    """Some rows of the pattern, as a CSR array of int64 ones."""
    chosen_rows, columns = (chosen.start, chosen.stop - chosen.start), (0, connectivity.pattern.shape[1])
    block = (*chosen_rows, *columns) if connectivity.pattern.corder else (*columns, *chosen_rows)
    return to_scipy(window(connectivity, *block), np.int64(1), backend).tocsr()


def _operands(rng, n):
    """name -> (operand of some columns, the plain NumPy array that scipy multiplies by)"""
    events = rng.random((n, COLUMNS)) < DENSITY
    x = rng.standard_normal((n, COLUMNS)).astype(np.float32)
    return {"bool": (events, events), "Spikes": (Spikes(x), x > 0), "float": (x, x)}


def _first_column(x):
    return Spikes(x.value[:, 0]) if isinstance(x, Spikes) else x[:, 0]


def _transpose(x):
    return Spikes(x.value.T) if isinstance(x, Spikes) else x.T


def unequal(y, weight, counts) -> int:
    """How many elements of y differ from weight * counts."""
    return int((y != np.asarray(weight, y.dtype) * counts.astype(y.dtype)).sum())


def sums(P, x):
    """(P @ x, P @ |x|, terms of each sum) in float64"""
    exact = P @ x.astype(np.float64)
    return exact, P @ np.abs(x).astype(np.float64), np.broadcast_to(np.diff(P.indptr)[:, None], exact.shape)


def over_bound(y, weight, exact, absolute, terms) -> float:
    """The largest |y - weight * exact| over its rounding bound, where `exact` has rounded in float64 itself."""
    roundings, weight = terms + 1.0, np.float64(weight)
    gamma = sum(roundings * u / (1 - roundings * u) for u in (np.finfo(y.dtype).eps / 2, 2.0**-53))
    bound, error = abs(weight) * gamma * absolute, np.abs(y - weight * exact)
    ratio = np.divide(error, bound, out=np.where(error == 0, 0.0, np.inf), where=bound > 0)
    return float(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf).max(initial=0.0))

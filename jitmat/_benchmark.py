"""What the four product primitives are measured on, and the functions that users call them by."""

from __future__ import annotations

import functools
import itertools

import jax.numpy as jnp
import numpy as np

from . import _functions, _products
from ._op import BenchmarkConfig

SIZE, PROB, COLUMNS, ACTIVE = 1000, 0.1, 10, 0.1


def _data(binary: bool, columns: bool, *, platform: str) -> list[BenchmarkConfig]:
    """Every combination of transpose, corder and dtype of the operand, at 1000 x 1000 and p = 0.1."""
    shape = (SIZE, COLUMNS) if columns else (SIZE,)
    drawn = np.random.default_rng(42).random(shape)
    operands = {"bool": drawn < ACTIVE, "float": np.where(drawn < ACTIVE, drawn, 0) if binary else drawn}
    return [
        BenchmarkConfig(
            f"{'T' if transpose else 'NT'},{'corder' if corder else 'rorder'},{dtype}",
            (jnp.float32(1.0), PROB, jnp.asarray(x, bool if dtype == "bool" else jnp.float32), 42),
            {"shape": (SIZE, SIZE), "transpose": transpose, "corder": corder},
            {"prob": PROB, "active": ACTIVE if binary or dtype == "bool" else 1.0},
        )
        for transpose, corder, (dtype, x) in itertools.product((False, True), (True, False), operands.items())
    ]


for _binary, _columns in itertools.product((False, True), repeat=2):
    _name = f"{'binary_' if _binary else ''}jits{'mm' if _columns else 'mv'}"
    _primitive = getattr(_products, f"{_name}_p")
    _primitive.def_call(getattr(_functions, _name))
    _primitive.def_tags("jit_scalar", "binary" if _binary else "float", "mm" if _columns else "mv")
    _primitive.def_benchmark_data(functools.partial(_data, _binary, _columns))

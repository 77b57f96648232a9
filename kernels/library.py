"""Every kernel by name, compiled to an object file."""

import numpy as np
from numba import from_dtype

from . import bernoulli, materialize, matrix, renewal, vector
from .build import build
from .ffi import handler_functions

WALKS = {walk.NAME: walk for walk in (bernoulli, renewal)}
PRODUCTS = {
    "vector_gather": vector.make_gather,
    "vector_scatter": vector.make_scatter,
    "matrix_gather": matrix.make_gather,
    "matrix_scatter": matrix.make_scatter,
}
PATTERNS = {"count": materialize.make_count, "fill": materialize.make_fill, "dense": materialize.make_dense}


def compile_kernel(symbol: str, walk: str, kernel: str, operand: str, result: str) -> bytes:
    """The object file of a kernel; its FFI handler is the function `symbol`."""
    if kernel in PATTERNS:
        functions = PATTERNS[kernel](WALKS[walk])
    else:
        operand = "uint8" if operand == "bool" else operand
        functions = PRODUCTS[kernel](WALKS[walk], *(from_dtype(np.dtype(dtype)) for dtype in (operand, result)))
    return build(handler_functions(symbol, *functions))

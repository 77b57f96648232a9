"""The numba backend: compiles a kernel when a program that needs it is lowered, and calls it through XLA's FFI."""

from __future__ import annotations

import functools
import threading

import jax
import numpy as np

_lock = threading.Lock()


@functools.lru_cache(maxsize=1)
def problem() -> str | None:
    """None when the numba kernels can run here, else a sentence that says why they cannot."""
    try:
        from .kernels import ffi  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return f"numba cannot be used ({error}); `pip install numba`"
    return ffi.layout_problem()


@functools.cache
def _compile(walk: str, kernel: str, operand: str, result: str):
    """Compile one kernel and register it with XLA; gives its target name."""
    from numba import from_dtype

    from .kernels import ffi, materialize, matrix, vector, walks  # pyright: ignore[reportMissingImports]

    name = f"jitmat_{walk}_{kernel}_{operand}_{result}"
    family, _, orientation = kernel.partition("_")
    if orientation:
        module = vector if family == "vector" else matrix
        make = module.make_gather if orientation == "gather" else module.make_scatter
        as_bytes = "uint8" if operand == "bool" else operand
        functions = make(walks[walk], *(from_dtype(np.dtype(dtype)) for dtype in (as_bytes, result)))
    else:
        functions = getattr(materialize, f"make_{kernel}")(walks[walk])
    handler, *alive = ffi.ffi_handler(name, *functions)
    _alive.append((handler, alive))
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler.address), platform="cpu")
    return name


_alive: list = []  # compiled code must outlive every program that calls it


def _target(*key) -> str:
    with _lock:  # one thread compiles; the others find the kernel made
        return _compile(*key)


def call(kernel: str, block, operands, out: jax.ShapeDtypeStruct) -> jax.Array:
    """Run a kernel on a block."""
    *structure, x = operands
    columns = x.shape[1] if x.ndim == 2 else 1
    if kernel in ("gather", "scatter"):
        kernel = f"{'vector' if columns == 1 else 'matrix'}_{kernel}"
    name = _target(block.walk, kernel, np.dtype(x.dtype).name, np.dtype(out.dtype).name)
    config = np.array(
        [block.block_length, block.streams, block.positions, columns, 0 if block.diagonal else 1], np.int64
    )
    return jax.ffi.ffi_call(name, out)(*structure, x, config=config)

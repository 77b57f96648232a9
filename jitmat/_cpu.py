"""The numba backend: kernels compiled when a program that needs them is lowered, kept on disk, called by XLA's FFI."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import threading
from pathlib import Path

import jax
import numpy as np

from . import _disk

_lock = threading.Lock()
_engines: list = []  # compiled code must outlive every program that calls it


@functools.cache
def problem() -> str | None:
    """None when the numba kernels can run here, else a sentence that says why they cannot."""
    try:
        importlib.metadata.version("numba")
        if importlib.util.find_spec("numba") is None:
            raise ImportError("No module named 'numba'")
        import llvmlite.binding  # noqa: F401

        from .kernels import layout  # pyright: ignore[reportMissingImports]
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        return f"numba cannot be used ({error}); `pip install numba`"
    return layout.layout_problem()


@functools.cache
def _origin() -> bytes:
    """What compiled code depends on beside its name: the kernels' source, the compilers, the CPU, the FFI."""
    import llvmlite.binding as llvm

    from .kernels import layout  # pyright: ignore[reportMissingImports]

    parts = [path.read_bytes() for path in sorted(Path(layout.__file__).parent.glob("*.py"))]
    versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
    machine = [llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    parts += [str(part).encode() for part in (*versions, *machine, layout.version())]
    return hashlib.sha256(b"\0".join(parts)).digest()


def _object(symbol: str, key: tuple[str, ...]) -> bytes:
    """The object file of a kernel, from disk or compiled."""
    name = hashlib.sha256(_origin() + symbol.encode()).hexdigest()
    stored = _disk.read("numba", name)
    if stored is None:
        from .kernels import library  # pyright: ignore[reportMissingImports]

        stored = library.compile_kernel(symbol, *key)
        _disk.write("numba", name, stored)
    return stored


@functools.cache
def _registered(*key: str) -> str:
    """Load a kernel and register it with XLA; gives its target name."""
    import llvmlite.binding as llvm

    from .kernels import machine  # pyright: ignore[reportMissingImports]

    symbol = "jitmat_" + "_".join(key)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine.target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(_object(symbol, key)))
    engine.finalize_object()
    _engines.append(engine)
    handler = ctypes.cast(engine.get_function_address(symbol), ctypes.c_void_p)
    jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(handler.value), platform="cpu")
    return symbol


def _target(*key: str) -> str:
    with _lock:  # one thread compiles; the others find the kernel made
        return _registered(*key)


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

"""Kernels of one's own for `XLACustomKernel`: a numba function or CUDA source as a function that JAX can trace."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _cpu, _cuda_driver
from ._cuda_launch import MOST_ARGUMENTS, Launch, call

_lock = threading.Lock()


def numba_kernel(kernel: Callable, outs: Any, *, input_output_aliases: dict[int, int] | None = None) -> Callable:
    """A traceable function of arrays that runs a numba function on the CPU, called by XLA with no Python between.

    Parameters
    ----------
    kernel : function compiled by numba.njit
        Called as `kernel(*operands, *outputs)` with NumPy arrays that lie in XLA's memory; it fills the outputs, whose
        content is arbitrary before, leaves the operands as they are and returns nothing. A scalar is an array of
        no dimensions, read as `x[()]`. It is compiled once for all arrays of the same dtypes and numbers of
        dimensions, and runs on one thread: several calls may run at once, so it must not use `parallel=True`,
        whose threads can end the process then. Define it once, not in the generator: every new function is compiled
        anew and kept as long as the process.
    outs : jax.ShapeDtypeStruct, or a sequence of them
        Shape and dtype of each output, as a kernel generator is given them.
    input_output_aliases : dict of int to int, optional
        Operand -> output that begins as a copy of it (in place where XLA needs the operand no more).

    Returns
    -------
    function of arrays
        It returns what `outs` describes. It runs on CPUs, eagerly and under `jit`; `XLACustomKernel` gives it the
        rest.

    Raises
    ------
    ImportError
        When it is called where numba is missing, or does not fit the installed jaxlib.
    TypeError
        When the function is not numba's, does not compile for these operands, or a dtype is unknown to numba.
    JAX's runtime error
        When the kernel raises an exception, of which the name of the kernel is told and no more.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba
    >>> from jitmat import numba_kernel
    >>> @numba.njit
    ... def running_sum(x, out):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += x[i]
    ...         out[i] = total
    >>> x = jnp.arange(5.0)
    >>> jax.jit(numba_kernel(running_sum, jax.ShapeDtypeStruct(x.shape, x.dtype)))(x)
    Array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    results, tree = jax.tree.flatten(outs)

    def run(*operands):
        operands = [jnp.asarray(x) for x in operands]
        target = _numba_target(kernel, _kinds(operands), _kinds(results))
        made = jax.ffi.ffi_call(target, results, input_output_aliases=input_output_aliases)(*operands)
        return tree.unflatten(made)

    return run


def _kinds(arrays) -> tuple[tuple[str, int], ...]:
    return tuple((np.dtype(x.dtype).name, len(x.shape)) for x in arrays)


def _numba_target(kernel, operands, results) -> str:
    if problem := _cpu.problem():
        raise ImportError(f"a numba kernel cannot run here: {problem}")
    with _lock:  # one thread compiles; the others find the kernel made
        return _registered(kernel, operands, results)[0]


@functools.cache
def _registered(kernel, operands, results):
    """Compile and register a handler; gives its target name, and what must live as long as this process."""
    from numba.core.errors import NumbaError
    from numba.extending import is_jitted

    from .kernels import own  # pyright: ignore[reportMissingImports]

    name = getattr(kernel, "__name__", repr(kernel))
    if not is_jitted(kernel):
        raise TypeError(f"numba_kernel takes a function compiled by numba.njit, got {name}")
    text = ctypes.create_string_buffer(f"the numba kernel {name} raised an exception".encode())
    try:
        handler = own.make_handler(kernel, operands, results, ctypes.addressof(text))
    except NumbaError as error:
        arrays = ", ".join(f"{dtype} of {dimensions} dimensions" for dtype, dimensions in (*operands, *results))
        raise TypeError(f"numba cannot compile {name} for ({arrays}): {error}") from error
    target = f"jitmat_numba_{name}_{uuid.uuid4().hex}"  # in no other process does this name mean anything
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler.address), platform="cpu")
    return target, handler, text


def cuda_kernel(
    source: str,
    name: str,
    outs: Any,
    *,
    grid: int | Sequence[int],
    threads: int | Sequence[int],
    scalars: Sequence[Any] = (),
    shared: int = 0,
    options: Sequence[str] = (),
    input_output_aliases: dict[int, int] | None = None,
) -> Callable:
    """A traceable function of arrays that launches a kernel in CUDA C++, on XLA's stream with no Python between.

    The source is compiled by NVRTC for the machine's GPUs when the function is first called, and kept on disk under
    what decides it (the text, the options, the architecture, NVRTC's version). No other compiler is used.

    Parameters
    ----------
    source : str
        Device code with a kernel `extern "C" __global__ void name(...)`. Its parameters are a pointer to every
        operand, a pointer to every output, then the scalars. Arrays lie row by row; outputs begin with arbitrary
        content. NVRTC offers CUDA's built-in functions; a header such as <cuda_fp16.h> needs an option that says
        where it lies.
    name : str
        The kernel in the source.
    outs : jax.ShapeDtypeStruct, or a sequence of them
        Shape and dtype of each output, as a kernel generator is given them.
    grid, threads : int, or up to three of them
        Thread blocks, and threads of each, along x, y and z. With no block at all nothing is launched.
    scalars : sequence of int, float or NumPy scalar
        A Python int is passed to a parameter of any integer type, a Python float to a `double`, a NumPy scalar to
        one of its own type (`np.float32(0.1)` to a `float`).
    shared : int
        Bytes of dynamic shared memory.
    options : sequence of str
        More of NVRTC's options, such as "-DN=4", "-use_fast_math" or "-I/usr/local/cuda/include" (headers are not
        part of what names the code on disk: when one of yours changes, change an option too).
    input_output_aliases : dict of int to int, optional
        Operand -> output that begins as a copy of it (in place where XLA needs the operand no more): an operand of
        zeros where the kernel adds to its output by atomics.

    Returns
    -------
    function of arrays
        It returns what `outs` describes. It runs on NVIDIA GPUs, eagerly and under `jit`; `XLACustomKernel` gives it
        the rest.

    Raises
    ------
    ValueError, TypeError
        When grid, threads or scalars are not what is asked for above, or the source has no kernel of that name.
    OSError
        When the function is called where NVRTC or the NVIDIA driver is missing.
    RuntimeError
        When the source does not compile; the message holds NVRTC's log.

    Examples
    --------
    >>> import jax
    >>> from jitmat import cuda_kernel
    >>> CUDA = '''extern "C" __global__ void scale(const float* x, float* out, float factor, int n) {
    ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...   if (i < n) out[i] = factor * x[i];
    ... }'''
    >>> out = jax.ShapeDtypeStruct((1000,), np.float32)
    >>> scale = cuda_kernel(CUDA, "scale", out, grid=4, threads=256, scalars=[np.float32(0.5), 1000])
    >>> scale(jax.numpy.ones(1000))[:3]  # doctest: +SKIP
    Array([0.5, 0.5, 0.5], dtype=float32)
    """
    results, tree = jax.tree.flatten(outs)
    grid, threads = _sizes("grid", grid), _sizes("threads", threads)
    if not 1 <= math.prod(threads) <= 1024:
        raise ValueError(f"a thread block has 1 to 1024 threads, got {threads}")
    if 0 in grid and any(math.prod(out.shape) for out in results):
        raise ValueError(f"a grid of {grid} launches nothing, and would leave the outputs unset")
    words = [(1, _word(scalar)) for scalar in scalars]

    def run(*operands):
        operands = [jnp.asarray(x) for x in operands]
        pointers = [(0, i) for i in range(len(operands) + len(results))]
        if len(pointers) + len(words) > MOST_ARGUMENTS:
            raise ValueError(f"{name} takes {len(pointers) + len(words)} arguments; {MOST_ARGUMENTS} can be passed")
        code = _cuda_driver.Source(f"the source of {name}", source, tuple(options))
        launches = [] if 0 in grid else [Launch(code, (), name, grid, threads, shared, [*pointers, *words])]
        return tree.unflatten(call(launches, results, *operands, input_output_aliases=input_output_aliases))

    return run


def _sizes(what: str, sizes) -> tuple[int, ...]:
    sizes = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
    if not all(isinstance(size, int | np.integer) and size >= 0 for size in sizes) or not 1 <= len(sizes) <= 3:
        raise TypeError(f"{what} must be one to three integers of at least 0, got {sizes}")
    return tuple(int(size) for size in sizes)


def _word(scalar) -> int:
    """The 64 bits at whose address CUDA finds a parameter of the scalar's type."""
    if isinstance(scalar, bool | int):
        scalar = np.int64(scalar) if scalar < 2**63 else np.uint64(scalar)
    elif isinstance(scalar, float):
        scalar = np.float64(scalar)
    if not isinstance(scalar, np.generic) or scalar.nbytes > 8:
        raise TypeError(f"scalars must be Python or NumPy numbers of at most 64 bits, got {scalar!r}")
    return int.from_bytes(scalar.tobytes().ljust(8, b"\0"), "little", signed=True)

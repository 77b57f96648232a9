"""The FFI handler that launches CUDA kernels on XLA's stream: one for all of them, with no Python on its path.

A call carries its launches as data, an int64 array: for each launch, the kernel's key, the grid (3), the threads
(x | y << 16 | z << 32), the dynamic shared memory, the number of arguments, and for each argument a pair: (0, buffer)
for an operand or, counted on, a result; (1, value) for 64 bits of a scalar. A key names a kernel by its content, so a
program that another process compiled finds the same kernel here; the handle behind it is looked up in a table of this
process.
"""

from __future__ import annotations

import ctypes
import functools
import threading

import jax
import numpy as np

from . import _cuda_driver

TARGET = "jitmat_cuda"
_lock = threading.Lock()
MOST_ARGUMENTS = 56
_SLOTS = 1 << 16
_table = np.zeros((_SLOTS, 2), np.int64)  # open addressing: key, handle
_COMMAND_BUFFER = 1  # trait: may be recorded into a CUDA graph


def _enter(kernel: _cuda_driver.Kernel):
    """Make a kernel known to the handler: the handle first, so that who finds the key finds it whole."""
    slot = kernel.key % _SLOTS
    with _lock:
        while _table[slot, 0] not in (0, kernel.key):
            slot = (slot + 1) % _SLOTS
        _table[slot, 1] = kernel.handle
        _table[slot, 0] = kernel.key


class Launch:
    """One kernel with its grid; arguments are (0, buffer) or (1, 64 bits)."""

    def __init__(self, source, defines, function, grid, threads, shared, arguments):
        """`source` is a Source, or the name of one of this package's files, which takes `defines`."""
        if isinstance(source, str):
            source = _cuda_driver.source_file(source, defines)
        kernel = _cuda_driver.kernel(source, function, shared)
        _enter(kernel)
        x, y, z = (*(threads if isinstance(threads, tuple) else (threads,)), 1, 1)[:3]
        self.words = [kernel.key, *(*grid, 1, 1)[:3], x | y << 16 | z << 32, shared, len(arguments)]
        self.words += [word for argument in arguments for word in argument]


def call(launches: list[Launch], results: list[jax.ShapeDtypeStruct], *operands, **options):
    """Run the launches in order; results beyond those that the caller keeps are scratch of XLA's."""
    with _lock:
        _register()
    plan = np.array([len(launches), *(word for launch in launches for word in launch.words)], np.int64)
    return jax.ffi.ffi_call(TARGET, results, **options)(*operands, plan=plan)


@functools.lru_cache(maxsize=1)
def _register():
    handler, messages = _make_handler()
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler.address), platform="CUDA")
    return handler, messages  # alive as long as this process


def _address(library, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _make_handler():
    from llvmlite import ir
    from numba import cfunc, types
    from numba.extending import intrinsic

    from .kernels import ffi, layout  # pyright: ignore[reportMissingImports]

    word, load64, store64, call1 = ffi.word, ffi.load64, ffi.store64, ffi.call1

    @intrinsic
    def launch_kernel(typingctx, function, kernel, grid, threads, shared, stream, arguments):
        """cuLaunchKernel(kernel, grid[0..2], threads unpacked, shared, stream, arguments, NULL)"""
        i32, i64 = ir.IntType(32), ir.IntType(64)

        def codegen(context, builder, signature, args):
            callee = builder.inttoptr(args[0], ir.FunctionType(i32, [i64, *[i32] * 7, i64, i64, i64]).as_pointer())
            at = lambda i: builder.trunc(
                builder.load(builder.inttoptr(builder.add(args[2], ir.Constant(i64, 8 * i)), i64.as_pointer())), i32
            )
            packed = lambda shift: builder.trunc(
                builder.and_(builder.lshr(args[3], ir.Constant(i64, shift)), ir.Constant(i64, 0xFFFF)), i32
            )
            blocks = [at(0), at(1), at(2)]
            threads = [packed(0), packed(16), packed(32)]
            shared = builder.trunc(args[4], i32)
            passed = [args[1], *blocks, *threads, shared, args[5], args[6], ir.Constant(i64, 0)]
            return builder.sext(builder.call(callee, passed), i64)

        return types.int64(*[types.int64] * 7), codegen

    function = _address(_cuda_driver.driver(), "cuLaunchKernel")
    table = _table.ctypes.data
    messages = [
        ctypes.create_string_buffer(text)
        for text in (
            b"jitmat: this program was compiled in another process; trace it again in this one",
            b"jitmat: the CUDA driver refused to launch a kernel",
        )
    ]
    unknown, refused = (ctypes.addressof(message) for message in messages)
    answered_metadata = ffi.metadata_reply(_COMMAND_BUFFER)
    stack = ffi.stack(8 + MOST_ARGUMENTS)

    @cfunc(types.int64(types.int64))
    def handler(frame):
        if answered_metadata(frame):
            return 0
        api, scratch = load64(frame + ffi.API), stack()
        arguments = scratch + 64
        store64(scratch, 32)
        store64(scratch + 8, 0)
        store64(scratch + 16, load64(frame + ffi.CONTEXT))
        store64(scratch + 24, 0)
        error = call1(load64(api + layout.STREAM_GET), scratch)
        if error != 0:
            return error
        stream = load64(scratch + 24)
        operands, results, n = load64(frame + ffi.ARGS), load64(frame + ffi.RETS), load64(frame + ffi.ARGS - 16)
        plan = load64(load64(load64(frame + ffi.ATTRS)) + ffi.ARRAY_DATA)
        at, problem = plan + 8, 0
        for _ in range(word(plan, 0)):
            key = word(at, 0)
            slot = key % _SLOTS
            while word(table, 2 * slot) != key and word(table, 2 * slot) != 0:
                slot = (slot + 1) % _SLOTS
            if word(table, 2 * slot) == 0:
                problem = unknown
                break
            count = word(at, 6)
            for i in range(count):
                value = at + 8 * (8 + 2 * i)
                if word(at, 7 + 2 * i) == 0:  # a parameter's address is where the buffer keeps its own
                    buffer = load64(value)
                    value = load64(operands + 8 * buffer) if buffer < n else load64(results + 8 * (buffer - n))
                    value += ffi.BUFFER_DATA
                store64(arguments + 8 * i, value)
            handle, threads, shared = word(table, 2 * slot + 1), word(at, 4), word(at, 5)
            if launch_kernel(function, handle, at + 8, threads, shared, stream, arguments):  # pyright: ignore
                problem = refused
                break
            at += 8 * (7 + 2 * count)
        return ffi.error(frame, problem) if problem else 0

    return handler, messages

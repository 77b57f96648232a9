"""A numba function over arrays, whoever wrote it, as an XLA FFI handler."""

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, from_dtype, njit, types
from numba.extending import intrinsic

from .ffi import I64, error, load64, metadata_reply, view
from .layout import ARGS, BUFFER_DATA, BUFFER_DIMS, RETS


def make_handler(function, operands, results, message):
    """A cfunc that calls `function(*operands, *results)` on XLA's buffers, given as pairs (dtype, dimensions).

    When the function raises, XLA is told the text at the address `message`.
    """
    call = _call(function)
    arrays = [(ARGS, i, *array) for i, array in enumerate(operands)]
    arrays += [(RETS, i, *array) for i, array in enumerate(results)]
    for array in reversed(arrays):
        call = _with_argument(call, _array(*array))
    answered_metadata = metadata_reply()

    @cfunc(types.int64(types.int64))
    def handler(frame):
        if answered_metadata(frame):
            return 0
        raised = False
        try:
            call(frame)
        except Exception:
            raised = True
        return error(frame, message) if raised else 0

    return handler


def _call(function):
    @njit
    def call(frame, *arguments):
        function(*arguments)

    return call


def _with_argument(call, argument):
    """`call` with `argument(frame)` put before its last arguments."""

    @njit
    def call_with(frame, *before):
        call(frame, *before, argument(frame))

    return call_with


def _array(buffers, index, dtype, dimensions):
    """A function that gives buffer `index` of the frame as an array."""
    shape, element = _shape(dimensions), from_dtype(np.dtype(dtype))

    @njit
    def array(frame):
        buffer = load64(load64(frame + buffers) + 8 * index)
        return carray(view(load64(buffer + BUFFER_DATA), element), shape(load64(buffer + BUFFER_DIMS)))

    return array


def _shape(dimensions):
    """An intrinsic that reads so many sizes into a tuple."""

    @intrinsic
    def shape(typingctx, address):
        def codegen(context, builder, signature, args):
            at = lambda i: builder.inttoptr(builder.add(args[0], ir.Constant(I64, 8 * i)), I64.as_pointer())
            sizes = [builder.load(at(i)) for i in range(dimensions)]
            return context.make_tuple(builder, signature.return_type, sizes)

        return types.UniTuple(types.intp, dimensions)(types.int64), codegen

    return shape

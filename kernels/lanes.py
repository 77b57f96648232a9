"""Arithmetic that keeps its width: numba would widen 16- and 32-bit products to 64 bits, and lose the SIMD lanes."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _binary(op, t):
    @intrinsic
    def operate(typingctx, x, y):
        return t(t, t), lambda context, builder, signature, args: getattr(builder, op)(*args)

    return operate


mul32, add32 = (_binary(op, types.uint32) for op in ("mul", "add"))


def _choice(relation):
    @intrinsic
    def choose(typingctx, x, y):
        def codegen(context, builder, signature, args):
            return builder.select(builder.icmp_signed(relation, *args), *args)

        return types.int64(types.int64, types.int64), codegen

    return choose


lesser, greater = _choice("<"), _choice(">")  # numba compiles `min` and `max` for every number of arguments


@intrinsic
def trailing_zeros(typingctx, word):
    """The index of the lowest set bit of a nonzero 64-bit word."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen

"""Arithmetic that keeps its width: numba would widen 16- and 32-bit products to 64 bits, and lose the SIMD lanes."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _binary(op, t):
    @intrinsic
    def operate(typingctx, x, y):
        return t(t, t), lambda context, builder, signature, args: getattr(builder, op)(*args)

    return operate


mul16, add16, sub16, xor16, and16, shl16, shr16 = (
    _binary(op, types.uint16) for op in ("mul", "add", "sub", "xor", "and_", "shl", "lshr")
)
mul32, add32 = (_binary(op, types.uint32) for op in ("mul", "add"))


@intrinsic
def trailing_zeros(typingctx, word):
    """The index of the lowest set bit of a nonzero 64-bit word."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen

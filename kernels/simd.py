"""Vectors of 32 lanes inside numba functions: straight lines of LLVM vector code, whatever the machine's width.

A function decorated with `vectorized` becomes an intrinsic. Its body runs while numba compiles and builds the code
with `Vector`s, whose operators are lane by lane and wrap; addresses and scalars arrive as plain LLVM values.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
IR_TYPES = {
    types.uint8: I8,
    types.int32: I32,
    types.uint32: I32,
    types.int64: I64,
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
}


class Vector:
    """An LLVM vector with operators."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value

    @property
    def element(self):
        return self.value.type.element

    def _operand(self, other):
        if isinstance(other, Vector):
            return other.value
        if isinstance(other, int):
            return ir.Constant(self.value.type, [other] * self.value.type.count)
        return splat(self.builder, other, self.element, self.value.type.count).value

    def _apply(self, operation, other):
        return Vector(self.builder, getattr(self.builder, operation)(self.value, self._operand(other)))

    def __add__(self, other):
        return self._apply("add" if isinstance(self.element, ir.IntType) else "fadd", other)

    def __sub__(self, other):
        return self._apply("sub", other)

    def __mul__(self, other):
        return self._apply("mul", other)

    def __and__(self, other):
        return self._apply("and_", other)

    def __or__(self, other):
        return self._apply("or_", other)

    def __xor__(self, other):
        return self._apply("xor", other)

    def __rshift__(self, other):
        return self._apply("lshr", other)

    def __lshift__(self, other):
        return self._apply("shl", other)

    def __lt__(self, other):
        return Vector(self.builder, self.builder.icmp_unsigned("<", self.value, self._operand(other)))

    def __ne__(self, other):
        return Vector(self.builder, self.builder.icmp_unsigned("!=", self.value, self._operand(other)))

    __hash__ = None

    def where(self, condition, otherwise):
        """Lanes of self where the condition holds, else `otherwise`."""
        return Vector(self.builder, self.builder.select(condition.value, self.value, self._operand(otherwise)))

    def any(self):
        """Whether a condition holds in any lane, as 0 or 1."""
        bits = self.builder.bitcast(self.value, ir.IntType(self.value.type.count))
        return self.builder.zext(self.builder.icmp_unsigned("!=", bits, bits.type(0)), I64)

    def __eq__(self, other):
        return Vector(self.builder, self.builder.icmp_unsigned("==", self.value, self._operand(other)))

    def widen(self, element):
        return Vector(self.builder, self.builder.zext(self.value, ir.VectorType(element, self.value.type.count)))

    def narrow(self, element):
        return Vector(self.builder, self.builder.trunc(self.value, ir.VectorType(element, self.value.type.count)))

    def store(self, address, lane_offset=0):
        at = _vector_pointer(self.builder, address, self.value.type, lane_offset)
        self.builder.store(self.value, at, align=_bytes(self.element))


def _bytes(element):
    return {ir.FloatType(): 4, ir.DoubleType(): 8}.get(element) or element.width // 8


def _vector_pointer(builder, address, vector_type, lane_offset):
    offset = ir.Constant(I64, lane_offset * _bytes(vector_type.element))
    return builder.inttoptr(builder.add(address, offset), vector_type.as_pointer())


def load(builder, address, element, lane_offset=0, lanes=LANES):
    kind = ir.VectorType(element, lanes)
    pointer = _vector_pointer(builder, address, kind, lane_offset)
    return Vector(builder, builder.load(pointer, align=_bytes(element)))


def splat(builder, scalar, element, lanes=LANES):
    """A scalar, cut to the element's width, in every lane."""
    if isinstance(scalar.type, ir.IntType) and scalar.type.width > element.width:
        scalar = builder.trunc(scalar, element)
    kind = ir.VectorType(element, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return Vector(builder, builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros))


def count_up(builder, element, lanes=LANES):
    """0, 1, 2, ..."""
    return Vector(builder, ir.Constant(ir.VectorType(element, lanes), list(range(lanes))))


class _VectorAddress(ir.Instruction):
    """getelementptr with a vector of indices, which llvmlite's builder does not offer."""

    def __init__(self, parent, base, index, element):
        kind = ir.VectorType(element.as_pointer(), index.type.count)
        super().__init__(parent, kind, "getelementptr", [base, index])
        self._element = element

    def descr(self, buf):
        operands = ", ".join(f"{operand.type} {operand.get_reference()}" for operand in self.operands)
        buf.append(f"getelementptr {self._element}, {operands}\n")


def gather(builder, address, element, index, lanes=16):
    """The elements at address[index], for 32-bit indices; `lanes` at a time."""
    name = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}.get(element) or f"i{element.width}"
    kind, mask = ir.VectorType(element, lanes), ir.VectorType(I1, lanes)
    pointers = _VectorAddress(builder.block, builder.inttoptr(address, element.as_pointer()), index.value, element)
    builder._insert(pointers)
    signature = ir.FunctionType(kind, [pointers.type, I32, mask, kind])
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.masked.gather.v{lanes}{name}.v{lanes}p0"
    )
    arguments = [
        pointers,
        ir.Constant(I32, _bytes(element)),
        ir.Constant(mask, [1] * lanes),
        ir.Constant(kind, ir.Undefined),
    ]
    return Vector(builder, builder.call(function, arguments))


def vectorized(result, *arguments):
    """Make a function of (builder, *LLVM values) an intrinsic of this signature; `result` may be None."""
    returned = types.void if result is None else result

    def decorate(build):
        def codegen(context, builder, signature, args):
            value = build(builder, *args)
            return context.get_dummy_value() if result is None else value

        # numba reads an intrinsic's parameters from its signature
        names = ", ".join(f"a{i}" for i in range(len(arguments)))
        namespace = {"signature": returned(*arguments), "codegen": codegen}
        exec(f"def typer(typingctx, {names}): return signature, codegen", namespace)
        return intrinsic(namespace["typer"])

    return decorate

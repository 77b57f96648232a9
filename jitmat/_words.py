"""64-bit unsigned arithmetic on pairs of 32-bit words (high, low), since JAX has no 64-bit integers without x64."""

import jax.numpy as jnp
import numpy as np

_HALF = np.uint32(0xFFFF)
_16 = np.uint32(16)


def split(value: int):
    """The two words of a Python integer, modulo 2^64."""
    value &= (1 << 64) - 1
    return np.uint32(value >> 32), np.uint32(value & 0xFFFFFFFF)


def multiply_wide(x, y):
    """The 64-bit product of two 32-bit words."""
    x0, x1, y0, y1 = x & _HALF, x >> _16, y & _HALF, y >> _16
    low, middle, other, high = x0 * y0, x1 * y0, x0 * y1, x1 * y1
    carry = (low >> _16) + (middle & _HALF) + (other & _HALF)
    return high + (middle >> _16) + (other >> _16) + (carry >> _16), x * y


def multiply(a, b):
    """a * b modulo 2^64."""
    high, low = multiply_wide(a[1], b[1])
    return high + a[0] * b[1] + a[1] * b[0], low


def add(a, b):
    """a + b modulo 2^64."""
    low = a[1] + b[1]
    return a[0] + b[0] + (low < b[1]).astype(jnp.uint32), low


def xor(a, b):
    return a[0] ^ b[0], a[1] ^ b[1]


def shift_right(a, bits: int):
    """a >> bits for 0 < bits < 32."""
    down, up = np.uint32(bits), np.uint32(32 - bits)
    return a[0] >> down, (a[1] >> down) | (a[0] << up)

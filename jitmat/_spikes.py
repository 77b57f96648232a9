"""Operands that are events: active or not, whatever their magnitude."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


@jax.tree_util.register_pytree_node_class
class Spikes:
    """An operand taken as events: `W @ Spikes(x)` sums the columns of W where x is active.

    y[i] = weight * #{j : W[i, j] is nonzero and x[j] is active}. Floats are active where x > 0, booleans and
    integers where x != 0. A boolean array is events without being wrapped. The result is exact, and its
    derivative in x is that of the float product W @ x, so that surrogate gradients flow.

    Parameters
    ----------
    value : array
        Real or boolean, of one or two dimensions.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jitmat import JITScalarMatrix, Spikes
    >>> W = JITScalarMatrix(2.0, 1.0, seed=0, shape=(2, 3))
    >>> W @ Spikes(jnp.array([0.5, -1.0, 7.0]))
    Array([4., 4.], dtype=float32)
    """

    __array_ufunc__ = None  # NumPy hands `ndarray @ Spikes` over

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Spikes({self.value!r})"

    @property
    def shape(self):
        return jnp.shape(self.value)

    @property
    def ndim(self):
        return jnp.ndim(self.value)

    @property
    def dtype(self):
        return jnp.result_type(self.value)

    def tree_flatten(self):
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


# brainevent's wrappers, known by name so that it need not be there: whether they hold events.
_BRAINEVENT = {"BinaryArray": True, "BitPackedBinary": True, "CompactBinary": True, "WeightedArray": False}


def unwrap(x):
    """(value, whether it is events) of an operand, which brainevent may have wrapped."""
    if isinstance(x, Spikes):
        return x.value, True
    events = _BRAINEVENT.get(type(x).__name__)
    if events is not None and hasattr(x, "value"):
        return x.value, events or getattr(x.value, "dtype", None) == np.bool_
    return x, getattr(x, "dtype", None) == np.bool_

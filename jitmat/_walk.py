"""The walks by name, and the table of a `prob` that a walk's kernels read.

A walk says which positions a block of a stream has, and nothing else knows how. On the JAX side it is a class with
`name`; `seed_bits` and `most_positions`, how large a seed and a walked axis may be; `check_prob`; `block_length`;
`table`, `table_length` words that hold what the kernels must know of `prob`; `random_access`, whether blocks are
powers of two in which an entry can be drawn by its number, and a position's number be told; `start`, `more` and
`draw`, its positions in plain JAX, `width` entries at a time; `locate` and `compose`, how blocks number positions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ._bernoulli import Bernoulli
from ._constants import made_once
from ._renewal import Renewal

WALKS = {walk.name: walk for walk in (Bernoulli, Renewal)}


def get_walk(name: str):
    """The walk of that name."""
    if not isinstance(name, str) or name not in WALKS:
        raise ValueError(f"walk must be one of {sorted(WALKS)}, got {name!r}")
    return WALKS[name]


def check_range(prob: float, walk: str):
    """Refuse what is no probability, or one that a walk cannot draw."""
    if not 0.0 <= prob <= 1.0:
        raise ValueError(f"prob must lie in [0, 1], got {prob}")
    WALKS[walk].check_prob(prob)


@made_once
def device_table(walk: str, prob: float, length: int):
    """The table of a concrete `prob`."""
    return WALKS[walk].table(prob, length)


def traced_table(walk: str, prob, length: int):
    """The table of a traced `prob`, computed on the host when the program runs."""

    def on_host(value):
        value = float(value)
        check_range(value, walk)
        return WALKS[walk].table(value, length)

    shape = jax.ShapeDtypeStruct((WALKS[walk].table_length,), jnp.uint32)
    return jax.pure_callback(on_host, shape, jax.lax.stop_gradient(prob), vmap_method="sequential")

"""Small arrays that products need again and again, made once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

MOST = 4096


def made_once(make: Callable[..., Any]) -> Callable[..., jax.Array]:
    """Cache `jnp.asarray(make(*key))`, also from within a trace; what is not concrete there is not kept."""
    kept: dict = {}

    @functools.wraps(make)
    def get(*key):
        if key in kept:
            return kept[key]
        with jax.ensure_compile_time_eval():
            array = jnp.asarray(make(*key))
        if not isinstance(array, Tracer):
            if len(kept) >= MOST:
                kept.clear()
            kept[key] = array
        return array

    return get

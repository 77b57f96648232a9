"""What every test runs under: rank promotion raises, warnings are errors, and slow or GPU tests only when named."""

import jax
import pytest
from cases import BACKENDS

jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_modifyitems(config, items):
    """Deselect tests marked slow or gpu unless `-m` speaks of the marker."""
    for marker in ("slow", "gpu"):
        if marker not in (config.option.markexpr or ""):
            left_out = [item for item in items if item.get_closest_marker(marker)]
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=left_out)


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    """Run a test without and with 64-bit types."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Run a test on every backend of this platform."""
    return request.param

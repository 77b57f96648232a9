"""What subcommands accept on the command line: numbers in their range, backends that can run here."""

from __future__ import annotations

import argparse
import math
import os
import pathlib

from ._products import jitsmv_p
from ._seed import python_seed


def seed(text: str) -> int:
    """A seed of a matrix."""
    try:
        return python_seed(int(text), 64)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer in [-2^63, 2^64), got {text!r}") from None


def size(text: str) -> int:
    """A size of a matrix: an integer of at least 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return int(text)


def number(low: float, high: float = math.inf):
    """A parser of numbers in [low, high]."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (low <= value <= high and math.isfinite(value)):
            bound = f"in [{low:g}, {high:g}]" if high < math.inf else f"of at least {low:g}"
            raise argparse.ArgumentTypeError(f"must be a number {bound}, got {text!r}")
        return value

    return parse


def backend(text: str) -> str:
    """The name of a backend that runs on JAX's default platform."""
    if text not in (names := jitsmv_p.available_backends()):
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, got {text!r}")
    return text


def add_backend(parser: argparse.ArgumentParser):
    """The option --backend."""
    parser.add_argument("--backend", type=backend, help="which kernels to use (default: the platform's; see info)")


def check_plot(path: str):
    """Refuse, before anything is computed, a picture that cannot be written."""
    file = pathlib.Path(path)
    if file.is_dir() or not file.parent.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ValueError(f"--plot {path}: cannot be written")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'jitmat[plot]'") from None
    kinds = sorted(FigureCanvasAgg.get_supported_filetypes())
    if file.suffix[1:].lower() not in kinds:
        raise ValueError(f"--plot {path}: the name must end in one of {', '.join(kinds)}")

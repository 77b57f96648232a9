"""The raster of a run. Matplotlib is imported here only, when a plot is asked for."""

from __future__ import annotations

import os
import pathlib

import numpy as np

BIN_MS = 5.0


def check_plot(path: str):
    """Refuse, before anything is computed, a file that cannot be written."""
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


def draw_raster(path: str, times, neurons, *, sample, n_exc: int, duration: float):
    """Spikes of a sample of neurons over time, and their mean rate below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    raster, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name, chosen, colour in (
        ("excitatory", neurons < n_exc, "tab:blue"),
        ("inhibitory", neurons >= n_exc, "tab:red"),
    ):
        raster.scatter(times[chosen], neurons[chosen], s=1, c=colour, linewidths=0, rasterized=True, label=name)
    raster.set(ylabel="neuron", ylim=(0, sample[-1]))
    raster.legend(loc="upper right", markerscale=6)
    edges = np.arange(0, duration + BIN_MS, BIN_MS)
    counts, _ = np.histogram(times, edges)
    rate.stairs(counts / (BIN_MS / 1000 * len(sample)), edges, color="black")
    rate.set(xlabel="time (ms)", ylabel="mean rate (Hz)", xlim=(0, duration))
    figure.savefig(path, dpi=150)

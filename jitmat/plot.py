"""Pictures of matrices and of spikes, drawn without making a matrix; matplotlib is imported when one is asked for."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._compute import Connectivity, product, split_unit
from ._materialize import concrete, count_streams, window
from ._matrix import JITScalarMatrix, check_axis
from ._pattern import Pattern
from ._products import jits_count_p
from ._walk import get_walk

BUDGET = 2e9  # ns that a picture may take on one thread, at the prices below
KEY, DRAW, ADD = 10, 7, 1  # ns of a block's key, of a nonzero drawn to be counted, and of one added in a product
MOST = 200_000  # spikes of a raster
BARS = 60
LANES = 32  # keys of a block of the renewal walk, whose count nothing but drawing tells
COARSEST = 16  # blocks along an axis whose pixels may be blocks
EXTENT = 1 << 31  # entries of a window whose count is a uint32


def spy(W: JITScalarMatrix, *, pixels: int = 256, ax: Any = None):
    """Draw where the nonzeros of W are: a pixel per entry, or per rectangle of entries in a larger matrix.

    The shade of a rectangle is its density of nonzeros, `prob` a middle grey. All of its entries are counted where
    that takes seconds, else those of its first streams (rows, or columns where `corder` is False): a sample, but of
    the matrix's true entries. The colour bar says how many entries a pixel stands for and how many were counted. A
    large matrix has fewer, wider pixels along its streams where whole blocks of a stream can be counted without
    drawing them. Memory is O(pixels^2) whatever the shape.

    Parameters
    ----------
    W : JITScalarMatrix
        With a concrete prob and seed.
    pixels : int
        At most so many along each axis.
    ax : matplotlib Axes, optional
        Where to draw; None takes `matplotlib.pyplot.gca()`.

    Returns
    -------
    matplotlib Axes
        The image is `ax.images[0]`, its array the densities.

    Raises
    ------
    TypeError, ValueError
        When W is no JITScalarMatrix, its prob or seed is traced, it has no entries, or `pixels` is no integer from 1
        up.
    ImportError
        Without matplotlib: `pip install 'jitmat[plot]'`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jitmat import JITScalarMatrix, plot
    >>> W = JITScalarMatrix(1.0, 0.001, seed=1, shape=(1_000_000, 1_000_000))
    >>> ax = plot.spy(W, pixels=64, ax=Figure().subplots())
    >>> ax.images[0].get_array().shape
    (62, 64)
    """
    connectivity = _connectivity(W, "spy")
    if not isinstance(pixels, int | np.integer) or isinstance(pixels, bool):
        raise TypeError(f"pixels must be an integer, got {pixels!r}")
    if pixels < 1:
        raise ValueError(f"pixels must be at least 1, got {pixels}")
    density, height, width, counted = _densities(connectivity, int(pixels), W.backend)
    ax = _axes(ax)
    (m, n), longest = W.shape, max(W.shape)
    rows, columns = density.shape
    image = ax.imshow(
        density,
        cmap="Greys",
        vmin=0,
        vmax=1 if height == width == 1 else np.clip(2 * float(W.prob), max(density.max(), 1e-12), 1),
        interpolation="nearest",
        aspect="equal" if longest <= 8 * min(W.shape) else "auto",
        extent=(-0.5, columns * width - 0.5, rows * height - 0.5, -0.5),
    )
    ax.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), xlabel="column", ylabel="row")
    if height * width > 1:
        share = f"a pixel's {height:,} x {width:,} entries"
        if counted != (height, width):
            share = f"the first {counted[0]:,} x {counted[1]:,} of {share}"
        ax.figure.colorbar(image, ax=ax, label=f"density of nonzeros in\n{share}")
    return ax


def degree_histogram(W: JITScalarMatrix, *, axis: int = 1, ax: Any = None):
    """Draw how many rows (or columns) of W have how many nonzeros, beside Binomial(n, prob).

    All rows are counted where that takes seconds, else the first so many; the legend says how many. Across the
    streams (rows where `corder` is False) the least is a block of rows, whose nonzeros are all drawn.

    Parameters
    ----------
    W : JITScalarMatrix
        With a concrete prob and seed.
    axis : int
        As in `W.sum`: 1 counts along rows, a degree for each row; 0 along columns.
    ax : matplotlib Axes, optional
        Where to draw; None takes `matplotlib.pyplot.gca()`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError, ValueError
        When W is no JITScalarMatrix, its prob or seed is traced, it has no rows or columns, or `axis` is another.
    ImportError
        Without matplotlib: `pip install 'jitmat[plot]'`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jitmat import JITScalarMatrix, plot
    >>> W = JITScalarMatrix(1.0, 0.1, seed=1, shape=(500, 2000))
    >>> ax = plot.degree_histogram(W, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['500 rows', 'binomial']
    """
    from scipy.stats import binom

    connectivity = _connectivity(W, "degree_histogram")
    by_row = check_axis(axis, "0 or 1") == 1
    degrees = _degrees(connectivity if by_row else connectivity.T, W.backend)
    ax = _axes(ax)
    lines, trials = W.shape if by_row else W.shape[::-1]
    pattern = connectivity.pattern
    trials -= not pattern.diagonal and pattern.shape == pattern.whole
    step = int(max(1, np.ceil((np.ptp(degrees) + 1) / BARS)))
    edges = np.arange(degrees.min(), degrees.max() + step + 1, step) - 0.5
    what = "rows" if by_row else "columns"
    label = f"{lines:,} {what}" if degrees.size == lines else f"the first {degrees.size:,} of {lines:,} {what}"
    ax.hist(degrees, edges, color="tab:blue", alpha=0.6, label=label)
    spread = 4 * np.sqrt(trials * float(W.prob) * (1 - float(W.prob))) + step
    reach = np.arange(-spread, spread + step, step) + round(trials * float(W.prob))
    reach = np.floor(np.unique(np.clip(reach, -0.5, trials + 0.5))) - 0.5
    expected = degrees.size * np.diff(binom.cdf(np.append(reach, reach[-1] + step), trials, float(W.prob)))
    ax.plot(reach + step / 2, expected, color="black", linewidth=1, label="binomial")
    ax.set(xlabel=f"nonzeros of a {what[:-1]}", ylabel=what)
    ax.legend()
    return ax


def raster(times, neurons, *, groups: dict[str, tuple[int, int]] | None = None, ax: Any = None):
    """Draw spikes: a dot for every (time, neuron).

    Of more than 200,000 spikes those of every k-th neuron that spikes are drawn, with k in the label of the axis, and
    where those are still more, evenly chosen ones of theirs.

    Parameters
    ----------
    times : array or Quantity of shape (k,)
        When each spike was; a unit is written on the axis.
    neurons : integer array of shape (k,)
        Whose it was. For an array of booleans, steps x neurons: `raster(*np.nonzero(spikes))`.
    groups : dict, optional
        name -> (first, last + 1) of neurons that get a colour of their own; others are left out.
    ax : matplotlib Axes, optional
        Where to draw; None takes `matplotlib.pyplot.gca()`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        When times and neurons are not of one length.
    ImportError
        Without matplotlib: `pip install 'jitmat[plot]'`.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from jitmat import plot
    >>> spikes = np.random.default_rng(0).random((100, 50)) < 0.05
    >>> ax = plot.raster(*np.nonzero(spikes), groups={"E": (0, 40), "I": (40, 50)}, ax=Figure().subplots())
    >>> ax.get_ylabel()
    'neuron'
    """
    times, unit = split_unit(times)
    times, neurons = np.asarray(times), np.asarray(neurons)
    if times.shape != neurons.shape or times.ndim != 1:
        raise ValueError(f"times and neurons must be vectors of one length, got {times.shape} and {neurons.shape}")
    ax = _axes(ax)
    groups_of = list((groups or {"": (0, np.inf)}).items())
    shown = np.any([(first <= neurons) & (neurons < stop) for _, (first, stop) in groups_of], axis=0)
    times, neurons = times[shown], neurons[shown]
    every = max(1, -(-times.size // MOST))
    if every > 1:
        rank = np.unique(neurons, return_inverse=True)[1]
        times, neurons = times[rank % every == 0], neurons[rank % every == 0]
        sample = slice(None, None, max(1, -(-times.size // MOST)))  # where a few neurons have most of the spikes
        times, neurons = times[sample], neurons[sample]
    colours = ("tab:blue", "tab:red", "tab:green", "tab:orange", "tab:purple")
    for i, (name, (first, stop)) in enumerate(groups_of):
        inside = (neurons >= first) & (neurons < stop)
        dots = {"s": 1, "linewidths": 0, "rasterized": True, "label": name, "c": colours[i % len(colours)]}
        ax.scatter(times[inside], neurons[inside], **dots)
    ax.set(
        xlabel="time" if unit.is_unitless else f"time ({unit})",
        ylabel="neuron" if every == 1 else f"neuron (one in {every})",
    )
    if groups:
        ax.legend(loc="upper right", markerscale=6)
    return ax


def _connectivity(W, name) -> Connectivity:
    if not isinstance(W, JITScalarMatrix):
        raise TypeError(f"{name} takes a JITScalarMatrix, got {type(W).__name__}")
    if W.size == 0:
        raise ValueError(f"{name} of a matrix without entries: its shape is {W.shape}")
    return concrete(W._connectivity, name)


def _axes(ax):
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("jitmat.plot needs matplotlib: pip install 'jitmat[plot]'") from None
    return pyplot.gca()


def _densities(connectivity: Connectivity, pixels: int, backend):
    """(density of each pixel, its height, its width, (rows, columns) of it that were counted)

    Whole blocks of a stream are counted by their keys, parts of one by drawing it: where drawing is too dear, a pixel
    is made as wide as whole blocks.
    """
    pattern = connectivity.pattern
    if not pattern.corder:  # streams are rows from here on
        density, width, height, counted = _densities(connectivity.T, pixels, backend)
        return density.T, height, width, counted[::-1]
    sizes, length = pattern.shape, pattern.block.block_length
    height, width = (-(-size // min(size, pixels)) for size in sizes)
    whole, part = _prices(pattern, connectivity.prob)
    blocks = -(-width // length)
    price = 2 * part + whole * (blocks - 1)
    dear = sizes[0] * -(-sizes[1] // width) * price > BUDGET
    if dear and whole < part and sizes[1] >= COARSEST * length:
        width, price = blocks * length, whole * blocks
    rows, columns = -(-sizes[0] // height), -(-sizes[1] // width)
    most = int(min(height, EXTENT // width))
    streams = int(np.clip(BUDGET / (rows * columns * price), 1, most))
    last = int(np.clip(BUDGET / (rows * (price + part)), 1, most))  # the last pixel may end within a block
    density = np.empty((rows, columns))
    for these, tall in _alike(rows, sizes[0], height):
        for those, wide in _alike(columns, sizes[1], width):
            counted = min(tall, streams if wide == width else min(streams, last))
            piece = window(connectivity, these.start * height, counted, those.start * width, wide)
            steps = np.array(
                [(i * height, j * width) for i in range(_len(these)) for j in range(_len(those))], np.uint64
            )
            table, seed, start = piece.structure()
            found = _count_windows(table, seed, _moved(start, steps), block=piece.pattern.block, backend=backend)
            density[these, those] = np.asarray(found).reshape(_len(these), _len(those)) / (counted * wide)
    return density, height, width, (streams, width)


def _prices(pattern: Pattern, prob) -> tuple[float, float]:
    """(of a whole block that is counted, of a part of one)"""
    walk, drawn = get_walk(pattern.walk), DRAW * pattern.block.block_length * float(prob)
    return (KEY, KEY + drawn) if walk.random_access else (LANES * KEY + drawn, LANES * KEY + drawn)


def _alike(number: int, size: int, step: int):
    """(pixels, entries of each): all of a whole step, but the last where it is smaller."""
    last = size - (number - 1) * step
    whole = number - (last < step)
    return [(slice(0, whole), step)] * (whole > 0) + [(slice(whole, number), last)] * (last < step)


def _len(pixels: slice) -> int:
    return pixels.stop - pixels.start


def _moved(start, steps):
    """The offsets of windows that lie (streams, positions) further than `start`."""
    stream, low, high = (int(word) for word in np.asarray(start))
    position = (high << 32 | low) + steps[:, 1]
    words = (stream + steps[:, 0], position & np.uint64(0xFFFFFFFF), position >> np.uint64(32))
    return jnp.asarray(np.stack(words, axis=1).astype(np.uint32))


@functools.partial(jax.jit, static_argnames=("block", "backend"))
def _count_windows(table, seed, offsets, *, block, backend):
    """The number of nonzeros of the window at each offset, one window after the other."""
    nothing = jnp.zeros((1,), jnp.int32)

    def count(offset):
        (found,) = jits_count_p(table, seed, offset, nothing, block=block, backend=backend)
        return found.sum(dtype=jnp.uint32)

    return jax.lax.map(count, offsets)


def _degrees(connectivity: Connectivity, backend) -> np.ndarray:
    """Nonzeros of each row, or of the first so many rows."""
    pattern = connectivity.pattern
    (rows, columns), length = pattern.shape, pattern.block.block_length
    whole, part = _prices(pattern, connectivity.prob)
    if pattern.corder:
        price = whole * -(-columns // length) + part
        some = window(connectivity, 0, int(np.clip(BUDGET / price, 1, rows)), 0, columns)
        return count_streams(some, backend)
    blocks = int(max(1, BUDGET / (columns * (KEY + ADD / DRAW * part))))
    some = window(connectivity, 0, columns, 0, min(rows, blocks * length))
    return np.asarray(product(some, 1, jnp.ones(columns, bool), backend=backend)).astype(np.int64)

"""Pictures show the matrix's true entries, say what a pixel stands for, and never make the matrix."""

import dataclasses
import re
import sys

import brainunit as u
import jax
import numpy as np
import pytest

from jitmat import JITScalarMatrix, plot

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    return Figure().subplots()


def matrix(shape, corder, prob=0.2, diagonal=True, origin=(0, 0), walk="bernoulli"):
    """A matrix of that shape: a window of a larger one, perhaps without its diagonal."""
    whole = tuple(size + first for size, first in zip(shape, origin))
    W = JITScalarMatrix(1, prob, 5, shape=whole, corder=corder, walk=walk)
    pattern = dataclasses.replace(W._connectivity.pattern, diagonal=diagonal, origin=origin, shape=shape)
    return W._make(W.weight, W._connectivity._replace(pattern=pattern), None)


def densities(W, height, width, counted):
    """Those of the first `counted` entries of each rectangle, from the stored matrix."""
    A = np.asarray(W.todense()) != 0
    (m, n), (rows, columns) = W.shape, counted
    return [
        [A[i : min(i + height, m), j : min(j + width, n)][:rows, :columns].mean() for j in range(0, n, width)]
        for i in range(0, m, height)
    ]


def said(ax):
    return ax.images[0].colorbar.ax.get_ylabel().replace("\n", " ")


@pytest.mark.parametrize("corder", [False, True])
def test_spy_of_a_small_matrix_has_a_pixel_per_entry(corder, ax):
    W = matrix((30, 70), corder, origin=(3, 600), diagonal=True)
    image = plot.spy(W, ax=ax).images[0]
    np.testing.assert_array_equal(image.get_array(), np.asarray(W.todense()) != 0)
    assert image.get_extent() == [-0.5, 69.5, 29.5, -0.5]
    assert image.colorbar is None


@pytest.mark.parametrize("corder", [False, True])
@pytest.mark.parametrize(("shape", "walk"), [((1000, 1000), "bernoulli"), ((97, 2048), "renewal")])
def test_pixels_of_a_larger_matrix_are_the_densities_of_their_entries(shape, walk, corder, ax):
    W = matrix(shape, corder, diagonal=shape[0] != shape[1], walk=walk)
    image = plot.spy(W, pixels=20, ax=ax).images[0]
    height, width = (-(-size // 20) for size in shape)
    np.testing.assert_allclose(image.get_array(), densities(W, height, width, (height, width)))
    assert said(ax) == f"density of nonzeros in a pixel's {height:,} x {width:,} entries"
    m, n = shape
    assert ax.get_xlim() == (-0.5, n - 0.5)
    assert ax.get_ylim() == (m - 0.5, -0.5)


@pytest.mark.parametrize("corder", [False, True])
def test_where_counting_all_is_too_dear_the_first_streams_are_counted_and_it_says_so(corder, monkeypatch, ax):
    monkeypatch.setattr(plot, "BUDGET", 4e6)
    W = matrix((500, 500), corder)
    image = plot.spy(W, pixels=25, ax=ax).images[0]
    counted = tuple(
        int(size) for size in re.search(r"the first (\d+) x (\d+) of a pixel's 20 x 20", said(ax)).groups()
    )
    assert 1 <= min(counted) < max(counted) == 20
    assert counted[corder] == 20  # of a stream all
    np.testing.assert_allclose(image.get_array(), densities(W, 20, 20, counted))


@pytest.mark.parametrize("corder", [False, True])
def test_or_whole_blocks_are_counted(corder, monkeypatch, ax):
    monkeypatch.setattr(plot, "BUDGET", 3e6)
    shape = (60, 18 * 512) if corder else (18 * 512, 60)
    W = matrix(shape, corder)
    length = W._connectivity.pattern.block.block_length
    monkeypatch.setattr(plot, "COARSEST", shape[corder] // length)
    image = plot.spy(W, pixels=30, ax=ax).images[0]
    size = (2, length) if corder else (length, 2)
    assert said(ax) == f"density of nonzeros in a pixel's {size[0]:,} x {size[1]:,} entries"
    np.testing.assert_allclose(image.get_array(), densities(W, *size, size))


def test_spy_of_a_line_that_is_wider_than_32_bits(ax):
    W = JITScalarMatrix(1, 0.5, 1, shape=(3, 2**33 + 8), corder=True)
    image = plot.spy(W, pixels=8, ax=ax).images[0]
    assert image.get_array().shape == (3, 8)
    np.testing.assert_allclose(image.get_array(), 0.5, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("corder", [False, True])
def test_the_histogram_is_that_of_the_degrees(axis, corder, ax):
    W = matrix((300, 300), corder, diagonal=False)
    degrees = np.diff((W.tocsr() if axis == 1 else W.tocsc()).indptr)
    plot.degree_histogram(W, axis=axis, ax=ax)
    edges = [bar.get_x() for bar in ax.patches]
    expected, _ = np.histogram(degrees, [*edges, np.inf])
    np.testing.assert_array_equal([bar.get_height() for bar in ax.patches], expected)
    x, y = ax.lines[0].get_data()
    assert y.sum() == pytest.approx(300, rel=0.01)
    assert (x * y).sum() / y.sum() == pytest.approx(299 * 0.2, rel=0.01)


@pytest.mark.parametrize("corder", [False, True])
def test_of_many_rows_the_first_are_counted_and_it_says_so(corder, monkeypatch, ax):
    monkeypatch.setattr(plot, "BUDGET", 1e5)
    W = matrix((5000, 100), corder)
    plot.degree_histogram(W, ax=ax)
    text = ax.get_legend().get_texts()[0].get_text()
    counted = int(re.fullmatch(r"the first ([\d,]+) of 5,000 rows", text)[1].replace(",", ""))
    degrees = np.diff(W.tocsr().indptr)[:counted]
    assert sum(bar.get_height() for bar in ax.patches) == counted < 5000
    middles = np.array([bar.get_x() + bar.get_width() / 2 for bar in ax.patches])
    heights = [bar.get_height() for bar in ax.patches]
    assert np.average(middles, weights=heights) == pytest.approx(degrees.mean())


def test_degrees_of_a_certain_matrix(ax):
    W = JITScalarMatrix(1, 1.0, 1, shape=(5, 7))
    plot.degree_histogram(W, ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [5]
    assert ax.lines[0].get_ydata().sum() == 5


def test_a_raster_has_a_dot_per_spike_in_the_colour_of_its_group(ax):
    times, neurons = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0, 3, 4, 9])
    plot.raster(u.Quantity(times, unit=u.ms), neurons, groups={"E": (0, 4), "I": (4, 8)}, ax=ax)
    exc, inh = ax.collections
    np.testing.assert_array_equal(exc.get_offsets(), [[0, 0], [1, 3]])
    np.testing.assert_array_equal(inh.get_offsets(), [[1, 4]])
    assert ax.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["E", "I"]


def test_of_too_many_spikes_every_so_many_neurons_are_drawn(monkeypatch, ax):
    monkeypatch.setattr(plot, "MOST", 40)
    times, neurons = np.nonzero(np.ones((10, 10)))
    plot.raster(times, neurons, ax=ax)
    assert set(ax.collections[0].get_offsets()[:, 1]) == {0, 3, 6, 9}
    assert ax.get_ylabel() == "neuron (one in 3)"


def test_mistakes_are_told(ax):
    W = JITScalarMatrix(1, 0.5, 1, shape=(4, 4))
    with pytest.raises(TypeError, match="spy takes a JITScalarMatrix, got csr_array"):
        plot.spy(W.tocsr(), ax=ax)
    with pytest.raises(ValueError, match="pixels must be at least 1, got 0"):
        plot.spy(W, pixels=0, ax=ax)
    with pytest.raises(ValueError, match=r"without entries: its shape is \(0, 3\)"):
        plot.degree_histogram(JITScalarMatrix(1, 0.5, 1, shape=(0, 3)), ax=ax)
    with pytest.raises(ValueError, match="axis must be 0 or 1, got 2"):
        plot.degree_histogram(W, axis=2, ax=ax)
    with pytest.raises(TypeError, match="spy needs a concrete prob and seed"):
        jax.jit(lambda seed: plot.spy(JITScalarMatrix(1, 0.5, seed, shape=(4, 4)), ax=ax))(1)
    with pytest.raises(ValueError, match=r"vectors of one length, got \(3,\) and \(2,\)"):
        plot.raster(np.zeros(3), np.zeros(2), ax=ax)


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'jitmat\[plot\]'"):
        plot.raster([], [])


def test_a_raster_of_too_many_spikes_shows_some_of_every_kind(ax):
    plot.raster(np.arange(400_001), np.full(400_001, 1), ax=ax)
    assert 100_000 < len(ax.collections[0].get_offsets()) <= plot.MOST
    ax.clear()
    plot.raster(np.arange(600_000), np.arange(600_000) % 7, groups={"E": (3, 5)}, ax=ax)
    assert 0 < len(ax.collections[0].get_offsets()) <= plot.MOST

"""The figures of docs/evidence.md: three statistics of jitmat's matrices beside NumPy's and brainevent's.

    pip install jitmat[plot] brainevent==0.3.0     # brainevent needs Python 3.12
    python docs/figures/evidence.py                # writes degrees.svg, pairs.svg and singular.svg beside itself

Every matrix has 4000 x 4000 entries that are nonzero with probability 0.1, a stream per row; singular values are those
of the first 2000 rows and columns. Without brainevent its panels are left out.
"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binom

import jitmat

N, PROB, SEED, LAGS, SMALL = 4000, 0.1, 1, 140, 2000
HERE = pathlib.Path(__file__).parent


def matrices():
    """name -> 0/1 rows"""
    W = jitmat.JITScalarMatrix(1.0, PROB, SEED, shape=(N, N), corder=True)
    found = {
        "jitmat, bernoulli": np.asarray(W.todense()) != 0,
        "NumPy": np.random.default_rng(SEED).random((N, N)) < PROB,
    }
    try:
        import brainevent
    except ImportError:
        return found
    theirs = np.asarray(brainevent.jits(1.0, PROB, SEED, shape=(N, N), transpose=False, corder=True)) != 0
    ours = jitmat.JITScalarMatrix(1.0, PROB, SEED, shape=(N, N), corder=True, walk="renewal")
    print("equal to jitmat's renewal walk:", bool((theirs == np.asarray(ours.todense())).all()))
    return found | {f"brainevent {brainevent.__version__}": theirs}


def panels(number, **options):
    return plt.subplots(1, number, figsize=(3.2 * number, 2.9), layout="constrained", **options)


def degrees(found):
    """How many rows and columns have how many nonzeros."""
    figure, (along, across) = panels(2, sharey=True)
    for ax, axis, title in ((along, 1, "rows: along the streams"), (across, 0, "columns: across the streams")):
        for (name, rows), colour in zip(found.items(), COLOURS):
            ax.hist(rows.sum(axis), np.arange(300, 501, 5) - 0.5, histtype="step", color=colour, label=name)
            print(f"degrees, {title}, {name}: mean {rows.sum(axis).mean():.2f}, variance {rows.sum(axis).var():.1f}")
        edges = np.arange(300, 501, 5)
        ax.plot(edges[:-1] + 2, N * np.diff(binom.cdf(edges - 1, N, PROB)), color="black", lw=0.8, label="binomial")
        ax.set(title=title, xlabel="nonzeros")
    along.set(ylabel="number of rows or columns")
    print(f"degrees, binomial: variance {N * PROB * (1 - PROB):.1f}")
    across.legend(fontsize="x-small", loc="upper left")
    save(figure, "degrees")


def pairs(found):
    """Correlation of entries of a stream by the distance between them."""
    figure, axes = panels(len(found), sharey=True)
    for ax, (name, rows), colour in zip(axes, found.items(), COLOURS):
        x = (rows - PROB) / np.sqrt(PROB * (1 - PROB))
        spectrum = (np.abs(np.fft.rfft(x, 2 * N, axis=1)) ** 2).sum(axis=0)
        terms = N * (N - np.arange(1, LAGS + 1))
        correlation = np.fft.irfft(spectrum)[1 : LAGS + 1] / terms
        noise = 1 / np.sqrt(terms)
        ax.fill_between(np.arange(1, LAGS + 1), -5 * noise, 5 * noise, color="0.85", lw=0)
        ax.plot(np.arange(1, LAGS + 1), correlation, ".", ms=2.5, color=colour)
        ax.set(title=name, xlabel="distance")
        ax.set_yscale("symlog", linthresh=2e-3)
        print(f"pairs, {name}: largest |correlation| {np.abs(correlation / noise).max():.1f} standard deviations")
    axes[0].set(ylabel="correlation of two entries")
    save(figure, "pairs")


def singular(found):
    """Singular values of the centred and scaled matrix, beside the quarter-circle law."""
    figure, axes = panels(len(found), sharey=True)
    for ax, (name, rows), colour in zip(axes, found.items(), COLOURS):
        x = (rows[:SMALL, :SMALL] - PROB) / np.sqrt(SMALL * PROB * (1 - PROB))
        values = np.linalg.svd(x, compute_uv=False)
        at = np.linspace(0, 2, 200)
        ax.hist(values, np.linspace(0, 2.2, 45), density=True, color=colour, alpha=0.6)
        ax.plot(at, np.sqrt(4 - at**2) / np.pi, color="black", lw=0.8)
        ax.set(title=name, xlabel="singular value")
        print(f"singular values, {name}: smallest {values[-1]:.4f}, largest {values[0]:.4f}")
    axes[0].set(ylabel="density")
    save(figure, "singular")


COLOURS = ("tab:blue", "tab:green", "tab:red")


def save(figure, name):
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})


def main():
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 9, "svg.hashsalt": "jitmat", "svg.fonttype": "path"})
    found = matrices()
    for figure in (degrees, pairs, singular):
        figure(found)


if __name__ == "__main__":
    main()

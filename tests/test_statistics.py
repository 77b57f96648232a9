"""The entries are independent Bernoulli variables as far as five standard deviations can tell.

Every statistic is a number of standard deviations, or an array of them; every bound is also shown to catch a walk
that is worse: two rounds of the permutation in place of six, a probability 1 % off, uniform gaps, keys without
hashing. The seeds are fixed, so that nothing here is a matter of luck.
"""

import functools

import numpy as np
import pytest
import reference
import scipy.linalg
import scipy.sparse.linalg

from jitmat import JITScalarMatrix

BOUND = 5.0
STREAMS, LENGTH, BLOCK, PROB, SEED = 2048, 3072, 1024, 0.1, 20

spoiled = functools.cache(functools.partial(reference.streams_of, range(STREAMS), LENGTH, PROB, SEED))


@functools.cache
def streams(seed=SEED, prob=PROB):
    """A row of 0/1 per stream: six million entries in blocks of 1024."""
    return np.asarray(JITScalarMatrix(1, prob, seed, shape=(STREAMS, LENGTH), corder=True).todense()) != 0


@functools.cache
def uniform_gaps():
    """Rows whose nonzeros lie 1 .. 2/p - 1 apart, each gap as likely: the mean is right, the spread is not."""
    gaps = np.random.default_rng(1).integers(1, round(2 / PROB), (STREAMS, LENGTH // 5))
    gaps[:, 0] -= np.random.default_rng(2).integers(0, round(2 / PROB), STREAMS)
    places = np.cumsum(gaps, axis=1)
    rows = np.zeros((STREAMS, LENGTH), bool)
    which, k = np.nonzero((places >= 0) & (places < LENGTH))
    rows[which, places[which, k]] = True
    return rows


def centred(rows, prob=PROB):
    """Entries of mean 0 and variance 1."""
    return (rows - np.float32(prob)) / np.float32(np.sqrt(prob * (1 - prob)))


def density(count, entries, prob):
    return (count - entries * prob) / np.sqrt(entries * prob * (1 - prob))


def degree_variance(rows, axis, prob=PROB):
    """Sum of squares of standardized degrees, whose variance is 2 but for the binomial's own kurtosis."""
    n = rows.shape[axis]
    variance = n * prob * (1 - prob)
    squares = (rows.sum(axis) - n * prob) ** 2 / variance
    kurtosis = (1 - 6 * prob * (1 - prob)) / variance
    return (squares.sum() - squares.size) / np.sqrt(squares.size * (2 + kurtosis))


def products_at_lags(x, lags):
    """Sum over rows and i of x[i] x[i + lag], and how many terms it has."""
    n = x.shape[1]
    spectrum = np.fft.rfft(x, 2 * n, axis=1)
    sums = np.fft.irfft((spectrum.real**2 + spectrum.imag**2).sum(axis=0))
    return sums[lags], x.shape[0] * (n - lags)


LAGS = np.arange(1, 601)


def lags_along(rows):
    sums, terms = products_at_lags(centred(rows), LAGS)
    return sums / np.sqrt(terms)


def lags_over_borders(rows):
    """Pairs whose two ends lie in different blocks."""
    sums, terms = products_at_lags(centred(rows), LAGS)
    within, terms_within = products_at_lags(centred(rows).reshape(-1, BLOCK), LAGS)
    return (sums - within) / np.sqrt(terms - terms_within)


def xor_distances(rows):
    """Pairs of a block by the xor of their positions: a Walsh-Hadamard transform turns them into squares."""
    hadamard = scipy.linalg.hadamard(BLOCK).astype(np.float32)
    x = centred(rows).reshape(-1, BLOCK)
    sums = hadamard.astype(np.float64) @ ((x @ hadamard).astype(np.float64) ** 2).sum(axis=0) / BLOCK
    return sums[1:] / np.sqrt(2 * x.size)  # each pair is met twice


def correlation(a, b):
    return (centred(a) * centred(b)).sum(dtype=np.float64) / np.sqrt(a.size)


def neighbours(of_seed):
    """Matrices of neighbouring seeds against each other, streams and positions shifted by a few."""
    first = of_seed(SEED)
    found = []
    for other in (SEED + 1, SEED + 2, SEED + 2**32, SEED ^ 1 << 63):
        second = of_seed(other)
        for stream, position in ((0, 0), (1, 0), (2, 0), (0, BLOCK), (1, BLOCK), (0, 1), (3, 3)):
            height, width = STREAMS - stream, LENGTH - position
            found.append(correlation(first[stream:, position:], second[:height, :width]))
            found.append(correlation(second[stream:, position:], first[:height, :width]))
    return np.array(found)


def largest_singular_value(rows):
    """Against the edge sqrt(m) + sqrt(n), in units of the Tracy-Widom law's spread, about its mean."""
    m, n = rows.shape
    (value,) = scipy.sparse.linalg.svds(centred(rows), k=1, return_singular_vectors=False, rng=0)
    scale = (1 / np.sqrt(m) + 1 / np.sqrt(n)) ** (1 / 3) / 2
    return ((value - np.sqrt(m) - np.sqrt(n)) / scale + 1.21) / 1.27


def is_within(z):
    return np.abs(z).max() < BOUND


def two_rounds():
    return spoiled(rounds=2)


def the_same_key_for_two_streams(seed, streams, block):
    return reference.start(seed, np.asarray(streams, np.uint64) >> np.uint64(1), block)


def the_same_key_for_all_blocks(seed, streams, block):
    return reference.start(seed, streams, 0)


def seed_plus_stream(seed, streams, block):
    with np.errstate(over="ignore"):
        number = np.uint64(seed % 2**64) + np.asarray(streams, np.uint64)
        return reference.mix64(number) + np.uint64(block) * np.uint64(0x9E3779B97F4A7C15)


PROBS = (1e-4, 0.003, 0.1, 0.3, 0.7, 0.99)


@pytest.mark.parametrize("prob", PROBS)
def test_the_density_is_prob(prob):
    shape = (1 << 18, 1 << 16)
    count = JITScalarMatrix(1, prob, 3, shape=shape, corder=True).nnz
    assert is_within(density(count, shape[0] * shape[1], prob))
    off = JITScalarMatrix(1, min(prob * 1.01, 1.0), 3, shape=shape, corder=True).nnz
    assert not is_within(density(off, shape[0] * shape[1], prob))


@pytest.mark.parametrize("prob", PROBS)
def test_the_density_of_drawn_entries_is_prob(prob):
    assert is_within(density(streams(4, prob).sum(), STREAMS * LENGTH, prob))


@pytest.mark.parametrize("prob", [0.003, 0.1, 0.7])
def test_degrees_spread_like_binomial_ones(prob):
    for corder in (True, False):
        rows = np.asarray(JITScalarMatrix(1, prob, 5, shape=(LENGTH, STREAMS), corder=corder).todense()) != 0
        assert is_within(degree_variance(rows, 0, prob))
        assert is_within(degree_variance(rows, 1, prob))


def test_uniform_gaps_would_not():
    assert abs(uniform_gaps().mean() - PROB) < 1e-4
    assert not is_within(degree_variance(uniform_gaps(), 1))
    assert not is_within(degree_variance(uniform_gaps().T, 0))


def test_entries_of_a_stream_are_independent_at_every_lag():
    assert is_within(lags_along(streams()))
    assert not is_within(lags_along(two_rounds()))


def test_entries_across_block_borders_are_independent_at_every_lag():
    assert is_within(lags_over_borders(streams()))
    assert not is_within(lags_over_borders(spoiled(rounds=2, key=the_same_key_for_all_blocks)))


def test_entries_across_streams_are_independent_at_every_lag():
    assert is_within(lags_along(streams().T))
    assert not is_within(lags_along(spoiled(key=the_same_key_for_two_streams).T))


def test_pairs_of_a_block_are_independent_at_every_xor_distance():
    assert is_within(xor_distances(streams()))
    assert not is_within(xor_distances(two_rounds()))


def test_neighbouring_seeds_and_streams_are_independent():
    assert is_within(neighbours(streams))
    by_sum = functools.cache(
        lambda seed: reference.streams_of(range(STREAMS), LENGTH, PROB, seed, key=seed_plus_stream)
    )
    assert not is_within(neighbours(by_sum))


def test_the_largest_singular_value_is_at_the_random_matrix_edge():
    assert is_within(largest_singular_value(streams()))
    assert not is_within(largest_singular_value(uniform_gaps()))
    assert not is_within(largest_singular_value(spoiled(key=the_same_key_for_two_streams)))

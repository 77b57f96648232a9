"""The known answers of the walk, by the NumPy reference, the numba kernels and the plain JAX kernels."""

import json
import zlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import COMPILED

from jitmat import JITScalarMatrix
from jitmat._bernoulli import block_bits
from jitmat._pattern import Block
from jitmat._products import jits_count_p, jits_dense_p
from jitmat._thresholds import SIZE, THRESHOLDS, bernoulli_table, thresholds

GOLDEN = json.loads((Path(__file__).parent / "golden" / "walk.json").read_text())
FEW = GOLDEN["matrices"][:2] + GOLDEN["matrices"][4:6] + GOLDEN["matrices"][19:22:2]


def name_block(case):
    return "-".join(str(case[key]) for key in ("seed", "stream", "block", "bits", "prob"))


def name_matrix(case):
    return "-".join(str(case[key]) for key in ("shape", "prob", "seed", "corder"))


def operands(case):
    """(table, seed, offset) of a golden block as the kernels take them, and the block."""
    bits, seed, position = case["bits"], int(case["seed"]), case["block"] << case["bits"]
    block = Block("bernoulli", 1 << bits, streams=1, positions=1 << bits, diagonal=True)
    words = jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
    offset = jnp.array([case["stream"], position & 0xFFFFFFFF, position >> 32], jnp.uint32)
    return (jnp.asarray(bernoulli_table(bits, case["prob"])), words, offset), block


def check_matrix(dense, case):
    dense = np.asarray(dense) != 0
    assert dense.shape == tuple(case["shape"])
    assert zlib.crc32(np.packbits(dense).tobytes()) == case["crc32"]
    assert dense.sum() == case["nnz"]
    assert dense.sum(axis=1)[:16].tolist() == case["row_sums"]
    assert dense.sum(axis=0)[:16].tolist() == case["col_sums"]


@pytest.mark.parametrize("case", GOLDEN["blocks"], ids=name_block)
def test_the_reference_draws_the_golden_block(case):
    u, words = reference.keys(int(case["seed"]), case["stream"], case["block"])
    assert u.tolist() == [case["u"]]
    assert words[:, 0].tolist() == case["words"]
    lo, values = reference.thresholds(case["bits"], case["prob"])
    told = case["thresholds"]
    assert (lo, len(values)) == (told["lo"], told["size"])
    assert list(values[:4]) == told["head"]
    assert list(values[-4:]) == told["tail"]
    (drawn,) = reference.count(u, case["bits"], case["prob"])
    positions = reference.permute(np.arange(drawn), case["bits"], words)[0]
    assert drawn == case["count"] == len(set(positions.tolist()))
    assert positions.tolist()[:24] == case["first"]
    assert positions.sum(dtype=np.int64) == case["sum"]


@pytest.mark.parametrize("case", GOLDEN["blocks"], ids=name_block)
def test_a_backend_draws_the_golden_block(case, backend):
    inputs, block = operands(case)
    nothing = jnp.zeros(1, jnp.int32)
    (marks,) = jits_dense_p(*inputs, nothing, block=block, backend=backend)
    (count,) = jits_count_p(*inputs, nothing, block=block, backend=backend)
    positions = np.flatnonzero(np.asarray(marks))
    assert len(positions) == count.item() == case["count"]
    assert positions.sum() == case["sum"]
    assert set(case["first"]) <= set(positions.tolist())


@pytest.mark.parametrize("case", GOLDEN["matrices"], ids=name_matrix)
def test_the_reference_draws_the_golden_matrix(case):
    check_matrix(reference.pattern(tuple(case["shape"]), case["prob"], int(case["seed"]), case["corder"]), case)


def golden_matrix(case, backend):
    shape, corder = tuple(case["shape"]), case["corder"]
    return JITScalarMatrix(2.0, case["prob"], int(case["seed"]), shape=shape, corder=corder, backend=backend)


@pytest.mark.parametrize("case", GOLDEN["matrices"], ids=name_matrix)
def test_the_compiled_kernels_draw_the_golden_matrix(case):
    W = golden_matrix(case, COMPILED)
    check_matrix(W.todense(), case)
    check_matrix(W.tocsr().toarray(), case)


@pytest.mark.parametrize("case", FEW, ids=name_matrix)
def test_plain_jax_draws_the_golden_matrix(case):
    check_matrix(golden_matrix(case, "jax").todense(), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN["matrices"], ids=name_matrix)
def test_plain_jax_draws_every_golden_matrix(case):
    check_matrix(golden_matrix(case, "jax").todense(), case)
    check_matrix(golden_matrix(case, "jax").tocsr().toarray(), case)


@pytest.mark.parametrize("bits", range(9, 15))
def test_the_reference_permutes_every_block_and_inverts_it(bits):
    _, words = reference.keys(7, np.arange(3), 0)
    images = reference.permute(np.arange(1 << bits), bits, words)
    assert (np.sort(images, axis=1) == np.arange(1 << bits)).all()
    sample = images[:, :200]
    assert (reference.invert(sample, bits, words) == np.arange(200)).all()


PROBS = [1e-4, 0.003, 0.1, 0.25, 0.3, 0.5, 0.7, 0.99, 1 - 2**-53, 5e-324, 1e-300, 2.0**-40, 1e-9]


@pytest.mark.parametrize("bits", [9, 11, 14])
def test_thresholds_agree_with_whole_number_ratios(bits):
    for prob in [0.0, *PROBS, float(np.float32(0.1)), 1.0]:
        assert thresholds(bits, prob) == reference.thresholds(bits, prob), prob


def test_no_table_is_longer_than_its_room():
    for bits in (9, 14):
        for prob in PROBS:
            assert bernoulli_table(bits, prob)[SIZE] <= 812 < len(bernoulli_table(bits, prob)) - THRESHOLDS


def test_block_lengths_are_those_of_the_definition():
    told = {1000: 10, 4000: 12, 5000: 10, 20000: 12, 50000: 13, 100000: 14, 10**6: 14, 877: 9, 878: 10, 0: 14, 1: 9}
    for length in [*range(1, 3000), *told, 10**9, 2**40]:
        assert block_bits(length) == reference.block_bits(length), length
    assert {length: reference.block_bits(length) for length in told} == told


def test_a_count_is_right_at_its_thresholds_and_never_takes_padding_for_one(backend):
    """Seeds made so that u is a threshold, one less, one more, or the largest there is."""
    block = Block("bernoulli", 512, streams=1, positions=512, diagonal=True)
    for prob in (1e-4, 0.003, 0.3, 1.0):
        lo, values = reference.thresholds(9, prob)
        table, offset = jnp.asarray(bernoulli_table(9, prob)), jnp.zeros(3, jnp.uint32)
        for u in {0, 1 << 24, (1 << 24) - 1, 2**32 - 1} | {t + d for t in values[::7] for d in (-1, 0, 1)}:
            seed = reference.seed_that_draws(u)
            assert reference.keys(seed, 0, 0)[0] == u
            words = jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
            nothing = jnp.zeros(1, jnp.int32)
            (count,) = jits_count_p(table, words, offset, nothing, block=block, backend=backend)
            assert count.item() == lo + sum(t <= u for t in values)

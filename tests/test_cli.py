"""The command line does its jobs, tells mistakes in one line, and its checks are able to fail."""

import contextlib
import io
import itertools
import json
import re
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
import scipy.linalg
from cases import BACKENDS, on_cpu

from jitmat import JITScalarMatrix, _balanced, _bench, _cpu, _cuda, _demo, _verify
from jitmat.__main__ import COMMANDS, main

VERIFY = ["verify", "--shape", "300", "200", "--prob", "0.1", "--seed", "1"]
DEMO = ["demo", "--scale", "0.25", "--duration", "60"]


# -- the demo ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo():
    """(exit code, what it printed) of the demo as a newcomer runs it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([])
    return code, out.getvalue()


def test_the_demo_checks_a_step_and_says_what_it_ran(demo):
    code, printed = demo
    assert code == 0
    assert "4,000 neurons (3,200 excitatory)" in printed
    assert re.search(r"8,000 of 8,000 sums of \d+ spikes against scipy's CSR: equal to the bit", printed)
    synapses = int(re.search(r"([\d,]+) synapses", printed)[1].replace(",", ""))
    assert abs(synapses - 320_000) < 5 * np.sqrt(320_000)
    assert "ms per step" in printed


def test_the_demo_is_in_the_regime_of_the_reference(demo):
    rate, cv = (float(re.search(rf"^{name} +([\d.]+)", demo[1], re.M)[1]) for name in ("rate", "CV"))
    assert in_regime(rate, cv)


def in_regime(rate, cv):
    """Within four standard deviations over the reference's seeds."""
    (mean_rate, sd_rate), (mean_cv, sd_cv) = _demo.REFERENCE_RATE, _demo.REFERENCE_CV
    return abs(rate - mean_rate) < 4 * sd_rate and abs(cv - mean_cv) < 4 * sd_cv


def test_the_demo_writes_a_raster(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "raster.png"
    assert main([*DEMO, "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "statistics begin after 200 ms" in capsys.readouterr().out
    assert main([*DEMO, "--plot", str(tmp_path / "raster.nope")]) == 2
    assert "must end in one of" in capsys.readouterr().err


def test_a_network_with_half_the_inhibition_is_not_in_the_regime():
    network = _balanced.make_network(1, seed=1)
    network = network._replace(inh=network.inh * np.float32(0.5))
    state, *_ = _demo.simulate(network, seed=1, duration=400, sample=np.arange(0))
    found = _balanced.statistics(state)
    assert not in_regime(found.rate, found.cv)


def test_the_first_steps_are_those_of_stored_matrices_and_of_the_exact_flow():
    network = _balanced.make_network(0.25, seed=3)
    start = _balanced.initial_state(1000, seed=3, begin=0)
    _, fired = _balanced.run_steps(network, start, np.arange(1000), steps=300)
    # d(V + 49, g_exc, g_inh)/dt
    flow = scipy.linalg.expm(0.1 * np.array([[-1 / 20, 1 / 20, 1 / 20], [0, -1 / 5, 0], [0, 0, -1 / 10]]))
    state, held = np.stack([np.asarray(start.v) + 49.0, np.zeros(1000), np.zeros(1000)]), np.zeros(1000, int)
    exc, inh = network.exc.tocsr(), network.inh.tocsr()
    for step in range(300):
        state = flow @ state
        state[0, held > 0] = -11.0
        spikes = state[0] > -1.0
        np.testing.assert_array_equal(np.asarray(fired[step]), spikes)
        state[1] += exc @ spikes[:800]
        state[2] += inh @ spikes[800:]
        state[0, spikes] = -11.0
        held = np.where(spikes, 49, held - 1)
    assert np.asarray(fired).sum() > 100


def test_statistics_are_those_of_the_spike_times():
    network, begin = _balanced.make_network(0.25, seed=2), 1000
    start = _balanced.initial_state(1000, seed=2, begin=begin)
    state, fired = _balanced.run_steps(network, start, np.arange(1000), steps=6000)
    trains = [begin + np.flatnonzero(train) for train in np.asarray(fired)[begin:].T]
    intervals = [np.diff(train) for train in trains if len(train) >= 5]
    found = _balanced.statistics(state)
    assert found.rate == pytest.approx(sum(map(len, trains)) / 1000 / 0.5)
    assert found.neurons == len(intervals) > 50
    assert found.cv == pytest.approx(np.mean([x.std() / x.mean() for x in intervals]), rel=1e-4)


def test_a_larger_network_keeps_the_in_degree():
    for scale in (0.25, 10):
        network = _balanced.make_network(scale, seed=1)
        assert [round(W.shape[1] * W.prob) for W in network] == [64, 16]
        assert network.exc.shape == (4000 * scale, 3200 * scale)


def test_the_demo_fails_when_scipy_has_another_matrix(monkeypatch, capsys):
    monkeypatch.setattr(_verify, "rows", spoiled(other_seed))
    assert main(DEMO) == 1
    assert "DIFFER" in capsys.readouterr().out


def test_the_demo_fails_when_no_neuron_fires(monkeypatch, capsys):
    monkeypatch.setattr(_balanced, "REST", -70.0)
    jax.clear_caches()
    assert main(["demo", "--scale", "0.25", "--duration", "40"]) == 1
    jax.clear_caches()
    assert "no neuron fires" in capsys.readouterr().out


def test_the_demo_checks_windows_of_what_is_too_large_to_store(monkeypatch, capsys):
    monkeypatch.setattr(_demo, "BUDGET", 6000)
    assert main(DEMO) == 0
    assert re.search(r"step +\d,?\d* of 2,000 sums", capsys.readouterr().out)


# -- verify ------------------------------------------------------------------------------------------


def other_seed(connectivity, P):
    return _verify.to_scipy(connectivity._replace(seed=connectivity.seed ^ 1), np.int64(1)).tocsr()[: P.shape[0]]


def one_entry_lost(connectivity, P):
    P.data[P.nnz // 2] = 0
    return P


def spoiled(how):
    """`rows` with a wrong result."""
    rows = _verify.rows
    return lambda connectivity, *args: how(connectivity, rows(connectivity, *args))


def test_verify_passes(capsys):
    assert main(VERIFY) == 0
    printed = capsys.readouterr().out
    assert "all 50 comparisons passed" in printed
    for product in ("W @ x", "x @ W", "W @ X", "X @ W", "W.T @ x", "x @ W.T", "todense"):
        assert re.search(rf"^  {re.escape(product)} +[\d,]+  equal", printed, re.M)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_verify_passes_on_small_shapes(shape, capsys):
    assert main(["verify", "--shape", *map(str, shape), "--prob", "1", "--seed", "-1", "--corder", "C"]) == 0
    assert "passed" in capsys.readouterr().out


@pytest.mark.parametrize("how", [other_seed, one_entry_lost])
def test_verify_fails_when_scipy_has_another_matrix(how, monkeypatch, capsys):
    monkeypatch.setattr(_verify, "rows", spoiled(how))
    assert main([*VERIFY, "--corder", "F"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"\d+ of \d+ comparisons FAILED", printed)
    assert "UNEQUAL" in printed


def test_verify_stores_windows_within_the_budget(monkeypatch, capsys):
    stored = []
    monkeypatch.setattr(_verify, "rows", spoiled(lambda connectivity, P: stored.append(P.nnz) or P))
    assert main([*VERIFY, "--budget", "900"]) == 0
    assert len(stored) == 2 * 2 * 3  # orders, W and W.T, windows
    assert 600 < sum(stored[:3]) < 1200
    assert "todense" not in capsys.readouterr().out


def test_windows_lie_inside_and_apart():
    for m, n, prob, budget in [(1000, 1000, 0.1, 30_000), (4, 10**6, 1.0, 10), (10**6, 10**6, 1e-5, 1 << 22)]:
        windows = _verify.windows(_verify.JITScalarMatrix(1.0, prob, 0, shape=(m, n)), budget)
        assert windows[0].start == 0
        assert windows[-1].stop == m
        assert all(a.stop <= b.start for a, b in itertools.pairwise(windows))


def test_the_rounding_bound_holds_and_is_able_to_fail():
    W = _verify.JITScalarMatrix(1.3, 0.1, 1, shape=(300, 200))
    P, at = _verify.stored(W, W.size)
    x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    y, expected = np.array(W @ x), _verify.sums(P, x)
    np.testing.assert_array_equal(at, np.arange(300))
    assert _verify.over_bound(y, W.weight, *expected) < 1
    assert _verify.over_bound(y * np.float32(1.001), W.weight, *expected) > 1
    y[7, 1] = np.nan
    assert _verify.over_bound(y, W.weight, *expected) == np.inf


def test_verify_takes_a_backend(monkeypatch, capsys):
    taken = []
    monkeypatch.setattr(_verify, "checks", lambda W, budget: taken.append(W.backend) or [])
    assert main([*VERIFY, "--backend", "jax"]) == 0
    assert taken == ["jax", "jax"]


# -- bench -------------------------------------------------------------------------------------------

BENCH = ["bench", "--shape", "300", "200", "--prob", "0.1", "--repeats", "1"]


@pytest.fixture
def peers(monkeypatch):
    """Of the peers scipy alone, wherever the tests run."""
    monkeypatch.setattr(_bench, "_installed", lambda package: False)


def test_bench_prints_every_product_beside_scipy(peers, capsys):
    assert main(BENCH) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "300 x 200, prob 0.1: " in lines[0]
    assert lines[3].split() == ["ms", "a", "call", "jitmat", "scipy"]
    for product in _bench.PRODUCTS:
        (line,) = (line for line in lines if line.startswith(product.name))
        assert re.search(r"(\s+[\d.e-]+){3} \([\d.]+x\)$", line)
    kept = next(line for line in lines if line.startswith("the matrix in memory")).split()[-4:]
    assert kept[1] == kept[3] == "kB"
    nonzeros = int(re.search(r"([\d,]+) nonzeros", lines[0])[1].replace(",", ""))
    assert float(kept[2]) == pytest.approx((8 * nonzeros + 4 * 301) / 1000, rel=0.05)


def test_bench_as_json_holds_what_follows_from_each_other(peers, capsys):
    assert main([*BENCH, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {result["library"] for result in report["results"]} == {"jitmat", "scipy"}
    assert len(report["results"]) == 2 * len(_bench.PRODUCTS)
    by_name = {product.name: product for product in _bench.PRODUCTS}
    for result in report["results"]:
        product = by_name[result["product"]]
        nonzeros = report["matrix"]["nonzeros"]["by rows" if product.corder else "by columns"]
        assert nonzeros == JITScalarMatrix(1, 0.1, 1, shape=(300, 200), corder=product.corder).nnz
        per_call = result["ns_per_nonzero"] * nonzeros * (product.columns or 1) / 1e9
        assert per_call == pytest.approx(result["seconds"])
        assert result["seconds"] > 0


def test_bench_times_the_very_same_product(peers):
    for corder in (True, False):
        W = JITScalarMatrix(np.float32(0.5), 0.1, 1, shape=(300, 200), corder=corder)
        for product in (product for product in _bench.PRODUCTS if product.corder is corder):
            x = product.operand(200)
            calls = [prepare() for _, _, prepare in _bench.libraries(W, W.tocsr(), x, product.active is not None)]
            ours, scipys = (np.asarray(call()) for call in calls)
            np.testing.assert_allclose(ours, scipys, rtol=1e-4, atol=1e-4)
            assert ours.shape == (300, 16)[: x.ndim]


def test_bench_tells_of_a_peer_that_fails_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(_bench, "_installed", lambda package: package == "brainevent")
    monkeypatch.setattr(_bench, "_version", lambda package: "0")
    monkeypatch.setitem(sys.modules, "brainevent", types.ModuleType("brainevent"))
    assert main(BENCH) == 0
    printed = capsys.readouterr().out
    assert printed.count("  failed  ") == len(_bench.PRODUCTS)
    assert "\nbrainevent failed: AttributeError: module 'brainevent' has no attribute 'jitsmv'" in printed


def test_bench_stores_no_matrix_that_is_too_large(peers, monkeypatch, capsys):
    monkeypatch.setattr(_bench, "MOST_STORED", 5000)
    monkeypatch.setattr(JITScalarMatrix, "tocsr", lambda W: pytest.fail("it was stored"))
    assert main(BENCH) == 0
    assert re.search(r"scipy and cuSPARSE are left out: they would store [\d.]+ kB", capsys.readouterr().out)


def test_bench_by_rich_has_the_same_cells(peers, monkeypatch, capsys):
    pytest.importorskip("rich")
    head, rows = (
        ["", "ms a call", "jitmat"],
        [["W @ x", "1", "2"], ["the matrix in memory", "", "4 kB"], ["z", "", ""]],
    )
    assert _bench._by_rich(head, rows)
    printed = capsys.readouterr().out
    for cell in (*head, *itertools.chain(*rows)):
        assert cell in printed
    monkeypatch.setitem(sys.modules, "rich", None)
    assert not _bench._by_rich(head, rows)


# -- info and the rest -------------------------------------------------------------------------------


@on_cpu
def test_info_says_what_is_here_and_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(_cpu, "problem", lambda: "numba cannot be used; `pip install numba`")
    monkeypatch.setattr(_cuda, "available", lambda: (False, "there is no NVIDIA driver"))
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    for expected in (jax.__version__, np.__version__, "brainunit", "cpu:0", "numba*, jax", "pip install numba"):
        assert expected in printed
    assert "there is no NVIDIA driver; with an NVIDIA GPU: pip install 'jitmat[cuda13]'" in printed


def test_no_subcommand_is_the_demo(monkeypatch):
    seen = []
    monkeypatch.setattr(_demo, "run", lambda args: seen.append(vars(args)) or 0)
    assert main([]) == main(["demo"]) == 0
    assert seen[0] | {"run": None} == seen[1] | {"run": None}


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_is_there(command, capsys):
    assert main([command, "--help"] if command else ["--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: jitmat")
    assert len(printed) > 100


MISTAKES = {
    "prob of 2": ([*VERIFY, "--prob", "2"], "--prob"),
    "prob nan": ([*VERIFY, "--prob", "nan"], "--prob"),
    "negative shape": (["verify", "--shape", "-3", "5", "--prob", "0.1", "--seed", "1"], "at least 0"),
    "shape beyond the limit": ([*VERIFY, "--shape", "4", str(2**41)], "at most 2^32 streams"),
    "seed of a half": ([*VERIFY, "--seed", "0.5"], "--seed"),
    "seed of 2^64": ([*VERIFY, "--seed", str(2**64)], "[-2^63, 2^64)"),
    "order": ([*VERIFY, "--corder", "X"], "--corder"),
    "backend": ([*VERIFY, "--backend", "nope"], f"must be one of {', '.join(BACKENDS)}"),
    "no shape": (["verify", "--prob", "0.1", "--seed", "1"], "--shape"),
    "subcommand": (["dmo"], "dmo"),
    "option": (["info", "--nope"], "--nope"),
    "scale of 0": (["demo", "--scale", "0"], "--scale"),
    "duration of 1 ms": (["demo", "--duration", "1"], "--duration"),
    "bench of nothing": (["bench", "--shape", "0", "5"], "nothing to time"),
    "repeats of 0": (["bench", "--repeats", "0"], "--repeats"),
    "folder of the plot": (["demo", "--plot", "/nowhere/raster.png"], "cannot be written"),
}


@pytest.mark.parametrize(("argv", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(argv, says, capsys):
    assert main(argv) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"jitmat.*: error: .*\n", told.err)
    assert says in told.err


def test_without_matplotlib_the_demo_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert main(["demo", "--plot", "raster.png"]) == 2
    assert capsys.readouterr().err == "jitmat demo: error: --plot needs matplotlib: pip install 'jitmat[plot]'\n"


def test_the_module_is_the_program():
    done = subprocess.run(
        [sys.executable, "-m", "jitmat", "verify", "--shape", "-1", "2", "--prob", "0.1", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr

"""Does the main job come out right: a published balanced network whose synapses are never stored?"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

import jax
import numpy as np

from . import _balanced as model
from . import plot
from ._arguments import add_backend, check_plot, number, seed
from ._products import jitsmv_p
from ._verify import BUDGET, stored, unequal

SUMMARY = "simulate the balanced network of Vogels and Abbott, check a step against scipy (default)"
DESCRIPTION = """\
Simulate the balanced network of Vogels and Abbott (2005) with current-based synapses, benchmark 2 of Brette et al.
(2007): 4000 integrate-and-fire neurons, 80 % excitatory, each pair connected with probability 0.02. The excitatory and
the inhibitory projection are one JITScalarMatrix each, regenerated in every step of 0.1 ms.

Prints the mean rate and the coefficient of variation (CV) of inter-spike intervals beside those of the reference
implementation, compares one step with scipy's CSR product to the bit (exit code 1 if they differ; of a network too
large to store, three windows of its neurons), and prints memory and time."""

SKIP_MS = 200.0
CHUNK_MS = 50.0
SAMPLE = 2000  # neurons of a raster
BIN_MS = 5.0  # of the mean rate below it

REFERENCE = "benchmark 2, Brette et al. (2007), p. 393, in Brian 2.9, ten seeds: docs/benchmarks/balanced_reference.py"
REFERENCE_RATE, REFERENCE_CV = (5.61, 0.17), (0.502, 0.011)  # mean and standard deviation over seeds


def add_arguments(parser: argparse.ArgumentParser):
    """The options of this subcommand."""
    parser.add_argument(
        "--scale",
        type=number(0.02, 1e5),
        default=1.0,
        metavar="S",
        help="4000 S neurons at probability 0.02 / S with the same weights: the in-degree stays (default: 1)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="of connectivity and initial voltages (default: 1)")
    parser.add_argument(
        "--duration",
        type=number(10, 1e6),
        default=1000.0,
        metavar="MS",
        help="biological time in ms; statistics leave out the first 200 (default: 1000)",
    )
    parser.add_argument("--plot", metavar="FILE", help="write a raster of the spikes (needs matplotlib)")
    add_backend(parser)


def run(args) -> int:
    """Simulate, report, check."""
    if args.plot:
        check_plot(args.plot)
    network = model.make_network(args.scale, args.seed, args.backend)
    n, n_exc = network.exc.shape
    nnz = [W.nnz for W in network]
    _line("network", f"{n:,} neurons ({n_exc:,} excitatory), {sum(nnz):,} synapses, {_where(args.backend)}")
    sample = np.linspace(0, n - 1, min(n, SAMPLE) if args.plot else 0).astype(np.int32)
    state, raster, seconds, compiling = simulate(network, args.seed, args.duration, sample)
    _report_statistics(state)
    passed = check_step(network, state)
    _report_memory(network, nnz)
    steps = int(state.step)
    _line(
        "time",
        f"{1e3 * seconds / steps:.3g} ms per step of 0.1 ms, {seconds:.1f} s in all + {compiling:.1f} s to compile",
    )
    if args.plot:
        draw(args.plot, *raster, sample=sample, n_exc=n_exc, duration=steps * model.DT)
        _line("plot", pathlib.Path(args.plot))
    return 0 if passed else 1


def simulate(network: model.Projections, seed: int, duration: float, sample):
    """(final state, (times in ms, neurons) of the sample's spikes, seconds of running, seconds of compiling)"""
    steps, chunk = round(duration / model.DT), round(CHUNK_MS / model.DT)
    state = model.initial_state(network.exc.shape[0], seed, round(SKIP_MS / model.DT))
    sizes = [chunk] * (steps // chunk) + [steps % chunk] * (steps % chunk > 0)
    began = time.perf_counter()
    programs = {size: model.run_steps.lower(network, state, sample, steps=size).compile() for size in set(sizes)}
    compiled = time.perf_counter()
    spikes, done = [], 0
    for size in sizes:
        state, fired = jax.block_until_ready(programs[size](network, state, sample))
        at, neuron = np.nonzero(np.asarray(fired))
        spikes.append(((done + at) * model.DT, sample[neuron]))
        done += size
        _progress(done, steps, time.perf_counter() - compiled)
    times, neurons = (np.concatenate(part) for part in zip(*spikes, strict=True))
    return state, (times, neurons), time.perf_counter() - compiled, compiled - began


def check_step(network: model.Projections, state: model.State) -> bool:
    """Compare what the network adds to its synapses with scipy's CSR product; says so and gives whether they agree.

    The events are the neurons that fired within the last 5 ms.
    """
    events = (state.step - state.last) < model.REFRACTORY
    delivered = jax.jit(model.Projections.deliver)(network, events)
    plain, border = np.asarray(events), network.exc.shape[1]
    different = compared = 0
    for W, y, s in zip(network, delivered, (plain[:border], plain[border:]), strict=True):
        P, at = stored(W, BUDGET)
        different += unequal(np.asarray(y)[at], W.weight, P @ s.astype(np.int64))
        compared += at.size
    silent = not plain.any()
    verdict = f"{different:,} DIFFER" if different else "equal to the bit"
    what = f"{compared:,} of {2 * plain.size:,} sums of {int(plain.sum()):,} spikes against scipy's CSR"
    _line("step", f"{what}: {'no neuron fires any more, FAILED' if silent else verdict}")
    return not different and not silent


def draw(path: str, times, neurons, *, sample, n_exc: int, duration: float):
    """Write a picture: spikes of a sample of neurons over time, and their mean rate below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    n = int(sample[-1]) + 1
    plot.raster(times, neurons, groups={"excitatory": (0, n_exc), "inhibitory": (n_exc, n)}, ax=above)
    above.set(xlabel="", ylim=(0, n - 1))
    edges = np.arange(0, duration + BIN_MS, BIN_MS)
    counts, _ = np.histogram(times, edges)
    rate.stairs(counts / (BIN_MS / 1000 * len(sample)), edges, color="black")
    rate.set(xlabel="time (ms)", ylabel="mean rate (Hz)", xlim=(0, duration))
    figure.savefig(path, dpi=150)


def _report_statistics(state):
    if int(state.step) <= int(state.begin):
        return _line("rate", f"none: statistics begin after {SKIP_MS:.0f} ms")
    found = model.statistics(state)
    _line("rate", f"{found.rate:.2f} Hz       reference {REFERENCE_RATE[0]} +- {REFERENCE_RATE[1]}")
    _line("CV", f"{found.cv:.3f}         reference {REFERENCE_CV[0]} +- {REFERENCE_CV[1]}")
    _line("", f"from 200 ms on, CV of the {found.neurons:,} neurons with at least five spikes")
    _line("", f"reference: {REFERENCE}")


def _report_memory(network, nnz):
    stored = sum(count * (4 + 4) + (W.shape[0] + 1) * 8 for W, count in zip(network, nnz, strict=True))
    kept = sum(x.nbytes for W in network for x in (*W._connectivity.structure(), W.weight))
    _line("memory", f"stored as CSR (float32, int32) {readable_bytes(stored)}; jitmat {readable_bytes(kept)}")


def _where(backend) -> str:
    device = jax.devices()[0]
    return f"{backend or jitsmv_p.get_default()} on {device.device_kind}"


def readable_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _line(name, value):
    print(f"{name:<8} {value}", flush=True)


def _progress(done: int, steps: int, seconds: float):
    """One line, rewritten; nothing where nobody watches."""
    if sys.stderr.isatty():
        text = f"{done * model.DT:.0f} of {steps * model.DT:.0f} ms, {seconds:.1f} s"
        print(f"\r{text:<40}", end="\r" + " " * 40 + "\r" if done == steps else "", file=sys.stderr, flush=True)

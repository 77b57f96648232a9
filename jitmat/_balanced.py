"""The balanced network of Vogels and Abbott with current-based synapses: its equations, and what is kept of a run.

Benchmark 2 ("CUBA") of Brette et al. (2007), J. Comput. Neurosci. 23:349-398, after Vogels and Abbott (2005),
J. Neurosci. 25:10786-10795, with the parameters, the initial state and the exact subthreshold integration of
the authors' own script (ModelDB 83319, SciLab/CUBA.sce). Voltages are in mV, times in ms.

    20 dV/dt = (-49 - V) + g_exc + g_inh,    5 dg_exc/dt = -g_exc,    10 dg_inh/dt = -g_inh

A neuron fires above -50, is reset to -60 and held there for 5 ms; a spike adds 0.27 nS * 60 mV / 10 nS = 1.62 mV
to g_exc of every target of an excitatory neuron, 4.5 nS * -20 mV / 10 nS = -9 mV to g_inh of an inhibitory one's.
Nothing drives the network but the resting potential above threshold: no stimulus, and V uniform in [-60, -50].
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._matrix import JITScalarMatrix

NEURONS, EXCITATORY, PROBABILITY = 4000, 3200, 0.02
DT = 0.1
TAU_M, TAU_EXC, TAU_INH = 20.0, 5.0, 10.0
REST, THRESHOLD, RESET = -49.0, -50.0, -60.0
WEIGHT_EXC, WEIGHT_INH = np.float32(1.62), np.float32(-9.0)
REFRACTORY = 50  # steps, 5 ms
NEVER = -(1 << 30)  # the step of a last spike that has not been

DECAY_M, DECAY_EXC, DECAY_INH = (math.exp(-DT / tau) for tau in (TAU_M, TAU_EXC, TAU_INH))
FROM_EXC = TAU_EXC / (TAU_M - TAU_EXC) * (DECAY_M - DECAY_EXC)  # what g_exc adds to V over a step
FROM_INH = TAU_INH / (TAU_M - TAU_INH) * (DECAY_M - DECAY_INH)


class Projections(NamedTuple):
    """Connectivity: row i of a matrix holds the inputs of neuron i, a column the targets of one source.

    A stream per column (the default, corder=False), so that `W @ spikes` visits only the neurons that fire.
    """

    exc: JITScalarMatrix
    inh: JITScalarMatrix

    def deliver(self, spikes):
        """What the spikes add to (g_exc, g_inh) of every neuron."""
        border = self.exc.shape[1]
        return self.exc @ spikes[:border], self.inh @ spikes[border:]


class State(NamedTuple):
    """Of the neurons, and the statistics of their spikes and inter-spike intervals since `begin`, in steps."""

    step: jax.Array
    begin: jax.Array
    v: jax.Array
    g_exc: jax.Array
    g_inh: jax.Array
    last: jax.Array  # step of the last spike
    spikes: jax.Array
    intervals: jax.Array  # sum of them
    squares: jax.Array  # sum of their squares


def make_network(scale: float, seed: int, backend: str | None = None) -> Projections:
    """4000 * scale neurons with the benchmark's weights and in-degrees."""
    n, n_exc, prob = round(NEURONS * scale), round(EXCITATORY * scale), PROBABILITY / scale
    other = (seed % (1 << 64)) ^ (1 << 63)
    return Projections(
        JITScalarMatrix(WEIGHT_EXC, prob, seed, shape=(n, n_exc), backend=backend),
        JITScalarMatrix(WEIGHT_INH, prob, other, shape=(n, n - n_exc), backend=backend),
    )


def initial_state(n: int, seed: int, begin: int) -> State:
    """V uniform between reset and threshold, nothing else; statistics from step `begin` on."""
    v = np.random.default_rng(seed % (1 << 64)).uniform(RESET, THRESHOLD, n).astype(np.float32)
    zero, count = jnp.zeros(n, jnp.float32), jnp.zeros(n, jnp.int32)
    return State(
        step=jnp.int32(0),
        begin=jnp.int32(begin),
        v=jnp.asarray(v),
        g_exc=zero,
        g_inh=zero,
        last=jnp.full(n, NEVER, jnp.int32),
        spikes=count,
        intervals=zero,
        squares=zero,
    )


def advance(network: Projections, state: State):
    """(state one step later, spikes of the step)"""
    v = REST + (state.v - REST) * DECAY_M + FROM_EXC * state.g_exc + FROM_INH * state.g_inh
    v = jnp.where(state.step - state.last < REFRACTORY, RESET, v)
    spikes = v > THRESHOLD
    more_exc, more_inh = network.deliver(spikes)
    counted = spikes & (state.step >= state.begin)
    interval = (state.step - state.last).astype(jnp.float32) * (counted & (state.last >= state.begin))
    return State(
        step=state.step + 1,
        begin=state.begin,
        v=jnp.where(spikes, RESET, v),
        g_exc=state.g_exc * DECAY_EXC + more_exc,
        g_inh=state.g_inh * DECAY_INH + more_inh,
        last=jnp.where(spikes, state.step, state.last),
        spikes=state.spikes + counted,
        intervals=state.intervals + interval,
        squares=state.squares + interval**2,
    ), spikes


@functools.partial(jax.jit, static_argnames="steps")
def run_steps(network: Projections, state: State, sample, *, steps: int):
    """(state after so many steps, spikes of the neurons in `sample`: an array of steps x neurons)"""

    def step(state, _):
        state, spikes = advance(network, state)
        return state, spikes[sample]

    return jax.lax.scan(step, state, None, length=steps)


class Statistics(NamedTuple):
    """Of the firing since `begin`."""

    rate: float  # Hz, mean over neurons
    cv: float  # of inter-spike intervals, mean over neurons with at least five spikes
    neurons: int  # that many


def statistics(state: State) -> Statistics:
    """Mean rate and mean coefficient of variation; nan where there is nothing to take it of."""
    seconds = max(int(state.step) - int(state.begin), 0) * DT / 1000
    spikes = np.asarray(state.spikes)
    enough = spikes >= 5
    count = spikes[enough] - 1
    mean = np.asarray(state.intervals, np.float64)[enough] / count
    variance = np.asarray(state.squares, np.float64)[enough] / count - mean**2
    cv = np.sqrt(np.maximum(variance, 0)) / mean
    return Statistics(
        rate=float(spikes.mean() / seconds) if seconds else math.nan,
        cv=float(cv.mean()) if cv.size else math.nan,
        neurons=int(enough.sum()),
    )

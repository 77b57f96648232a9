"""The reference values that `python -m jitmat demo` prints: the same network in Brian 2, measured alike.

    pip install brian2
    python docs/benchmarks/balanced_reference.py --seeds 10

Benchmark 2 of Brette et al. (2007), with the parameters of the authors' scripts (ModelDB 83319). Mean rate over all
neurons and coefficient of variation of inter-spike intervals over neurons with at least five spikes, the first 200 ms
of one second left out. Nothing of jitmat is used.
"""

import argparse

import numpy as np

EQUATIONS = """
dv/dt = (exc + inh + rest - v) / (20*ms) : volt (unless refractory)
dexc/dt = -exc / (5*ms) : volt
dinh/dt = -inh / (10*ms) : volt
"""
NEURONS, EXCITATORY, SKIP, SECONDS = 4000, 3200, 0.2, 1.0


def simulate(seed):
    """(spike times in seconds, neurons)"""
    import brian2

    brian2.start_scope()
    brian2.seed(seed)
    mV, ms = brian2.mV, brian2.ms
    neurons = brian2.NeuronGroup(
        NEURONS,
        EQUATIONS,
        threshold="v > -50*mV",
        reset="v = -60*mV",
        refractory=5 * ms,
        method="exact",
        namespace={"rest": -49 * mV, "mV": mV, "ms": ms},
    )
    neurons.v = (-60 + 10 * np.random.default_rng(seed).random(NEURONS)) * mV
    excitation = brian2.Synapses(neurons, neurons, on_pre="exc += 1.62*mV")
    inhibition = brian2.Synapses(neurons, neurons, on_pre="inh += -9*mV")
    excitation.connect(f"i < {EXCITATORY}", p=0.02)
    inhibition.connect(f"i >= {EXCITATORY}", p=0.02)
    spikes = brian2.SpikeMonitor(neurons)
    brian2.Network(neurons, excitation, inhibition, spikes).run(SECONDS * brian2.second)
    return np.asarray(spikes.t / brian2.second), np.asarray(spikes.i)


def statistics(times, neurons):
    """(mean rate in Hz, mean CV)"""
    counted = times >= SKIP - 1e-9
    times, neurons = times[counted], neurons[counted]
    trains = (np.diff(np.sort(times[neurons == neuron])) for neuron in np.unique(neurons))
    cvs = [intervals.std() / intervals.mean() for intervals in trains if intervals.size >= 4]
    return times.size / NEURONS / (SECONDS - SKIP), float(np.mean(cvs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    found = []
    for seed in range(1, parser.parse_args().seeds + 1):
        found.append(statistics(*simulate(seed)))
        print(f"seed {seed}: {found[-1][0]:.3f} Hz, CV {found[-1][1]:.3f}", flush=True)
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    print(f"rate {mean[0]:.2f} +- {deviation[0]:.2f} Hz, CV {mean[1]:.3f} +- {deviation[1]:.3f}")


if __name__ == "__main__":
    main()

"""Every product primitive on its own benchmark data, on every backend of this machine.

    python docs/benchmarks/primitives.py

Median of the time of a jitted call, in microseconds. The data are what `def_benchmark_data` was given: the
combinations of transpose, corder and a boolean or float operand, 1000 x 1000, p = 0.1.
"""

import functools
import statistics
import time

import jax

import jitmat


def microseconds(function, *args, calls=20, repeats=5):
    """Median over repeats of the time of one call."""
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(function(*args))
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def main():
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    for primitive in (jitmat.jitsmv_p, jitmat.jitsmm_p, jitmat.binary_jitsmv_p, jitmat.binary_jitsmm_p):
        backends = primitive.available_backends()
        print(f"\n{primitive.name:24}" + "".join(f"{backend:>12}" for backend in backends))
        for config in primitive.benchmark_data():
            weight, prob, x, seed = config.args
            times = []
            for backend in backends:
                call = functools.partial(primitive.call, seed=seed, backend=backend, **config.kernel_kwargs)
                times.append(microseconds(jax.jit(lambda w, x, call=call, prob=prob: call(w, prob, x)), weight, x))
            print(f"{config.name:24}" + "".join(f"{each:12.1f}" for each in times))


if __name__ == "__main__":
    main()

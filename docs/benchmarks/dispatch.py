"""What a call costs beside its kernel: eager, jitted, and as a step of a recurrent loop inside lax.scan.

    python docs/benchmarks/dispatch.py

1000 x 1000, p = 0.1, 2 % of the inputs active. brainevent is measured beside it where it is installed. Medians.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jitmat
from jitmat._bench import seconds

N, PROB, ACTIVE, STEPS, REPEATS = 1000, 0.1, 0.02, 1000, 9


def libraries():
    """A `binary product of a vector` per library, with the arguments of `jitmat.binary_jitsmv`."""
    yield "jitmat", jitmat.binary_jitsmv
    try:
        import brainevent
    except ImportError:
        print("brainevent is not installed: measured without it")
    else:
        yield "brainevent", brainevent.binary_jitsmv


def main():
    active = jnp.asarray(np.random.default_rng(0).random(N) < ACTIVE)
    print(f"{N} x {N}, p = {PROB}, {int(active.sum())} active; jax {jax.__version__} on {jax.default_backend()}")
    print(f"{'':12} {'eager call':>12} {'jitted call':>12} {'scan step':>12}   us; a jitted call of s + 1 beside them")
    for name, product in libraries():

        def multiply(s, product=product):
            return product(0.5, PROB, s, 42, shape=(N, N), transpose=False, corder=False)

        def step(s, _, multiply=multiply):
            return active | (multiply(s) > 1e9), None  # as a network: the product decides the next step's events

        def run(s, step=step):
            return jax.lax.scan(step, s, None, length=STEPS)[0]

        functions = multiply, jax.jit(multiply), jax.jit(run)
        times = [seconds(functools.partial(function, active), REPEATS) for function in functions]
        eager, called, looped = times[0], times[1], times[2] / STEPS
        print(f"{name:12} {eager * 1e6:12.1f} {called * 1e6:12.1f} {looped * 1e6:12.2f}")
    nothing = jax.jit(lambda s: s + 1)
    print(f"{'jax, s + 1':12} {'':12} {seconds(lambda: nothing(active), REPEATS) * 1e6:12.1f}")
    W = jitmat.JITScalarMatrix(0.5, PROB, 42, shape=(N, N))
    print(f"{'W @ s':12} {seconds(lambda: W @ active, REPEATS) * 1e6:12.1f}")


if __name__ == "__main__":
    main()

"""An operation of one's own: a numba kernel for CPUs, a CUDA kernel for GPUs, and jit, grad and vmap.

    python docs/examples/own_kernel.py

On a ring of n neurons, neuron i listens to itself and its next neighbours: y[i] = sum_d k[d] x[(i + d) mod n].
"""

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.interpreters import ad

from jitmat import XLACustomKernel, cuda_kernel, numba_kernel


# The kernel for CPUs: operands, then outputs, as NumPy arrays.
@numba.njit
def ring_cpu(k, x, y):
    for i in range(y.size):
        total = 0.0
        for d in range(k.size):
            total += k[d] * x[(i + d) % x.size]
        y[i] = total


# The kernel for NVIDIA GPUs: pointers to operands and outputs, then scalars.
CUDA = """
extern "C" __global__ void ring(const float* k, const float* x, float* y, int taps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float total = 0;
  for (int d = 0; d < taps; d++) total += k[d] * x[(i + d) % n];
  y[i] = total;
}
"""


def ring_gpu(outs, taps):
    n = outs[0].shape[0]
    return cuda_kernel(CUDA, "ring", outs, grid=-(-n // 256), threads=256, scalars=[taps, n])


ring_p = XLACustomKernel("ring")
ring_p.def_numba_kernel(lambda outs, taps: numba_kernel(ring_cpu, outs))
ring_p.def_cuda_raw_kernel(ring_gpu)


# What users call: it checks, and says what comes out.
def ring(k, x, backend=None):
    """y[i] = sum_d k[d] x[(i + d) mod n] for float32 vectors k and x of n elements."""
    k, x = jnp.asarray(k, jnp.float32), jnp.asarray(x, jnp.float32)
    if k.ndim != 1 or x.ndim != 1:
        raise ValueError(f"ring takes two vectors, got shapes {k.shape} and {x.shape}")
    return ring_p(k, x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype), taps=k.size, backend=backend)


# Derivatives: y is linear in k and in x, so the tangents go through the operation itself.
ring_p.def_jvp_rule2(
    lambda dk, k, x, **params: ring_p(dk, x, **params),
    lambda dx, k, x, **params: ring_p(k, dx, **params),
)


# And what reverse mode needs: the transpose of the map from the operand that is not known (a tangent) to y.
def ring_transpose(cotangents, k, x, *, outs, taps, **params):
    (c,) = cotangents
    if ad.is_undefined_primal(x):  # to x[j]: sum_d k[d] c[(j - d) mod n]
        (along,) = ring_p(k[::-1], c, outs=outs, taps=taps, **params)
        return None, jnp.roll(along, taps - 1)
    return jnp.stack([c @ jnp.roll(x, -d) for d in range(taps)]), None  # to k[d]: sum_i c[i] x[(i + d) mod n]


ring_p.def_transpose_rule(ring_transpose)


def main():
    k, x = jnp.array([1.0, 0.5, 0.25]), jnp.arange(1000.0) % 7
    by_numpy = sum(w * np.roll(x, -d) for d, w in enumerate(np.asarray(k)))
    print("ring on", ring_p.available_backends(), "equals NumPy:", np.allclose(ring(k, x), by_numpy))

    step = jax.jit(lambda k, x: jnp.tanh(ring(k, x)))
    print("jit:", step(k, x)[:4])

    loss = lambda k, x: jnp.sum(step(k, x) ** 2)
    in_k, in_x = jax.grad(loss, argnums=(0, 1))(k, 0.01 * x)
    h = 1e-2
    by_difference = (loss(k.at[1].add(h), 0.01 * x) - loss(k.at[1].add(-h), 0.01 * x)) / (2 * h)
    print("grad:", in_k, "difference quotient of the second:", by_difference)

    inputs = jnp.stack([x, 2 * x, -x])
    print("vmap:", jax.vmap(ring, in_axes=(None, 0))(k, inputs).shape)
    print("vmap of grad:", jax.vmap(jax.grad(loss), in_axes=(None, 0))(k, 0.01 * inputs).shape)
    return in_k, in_x


if __name__ == "__main__":
    main()

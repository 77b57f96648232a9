"""What a user writes, for pyright against the installed package (`.ci/run`), and to be run."""

# pyright: standard
from typing import assert_type

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jitmat
from jitmat import JITScalarMatrix, Spikes, jits_to_csr, jitsmv

W = JITScalarMatrix(0.5, 0.1, seed=42, shape=(100, 200))
s = jnp.arange(200) % 5 == 0
y: jax.Array = W @ s
z: jax.Array = y @ W + W.T @ y + jnp.asarray(W.T @ Spikes(y))
scaled = (2 * W - W / 3).T.with_data(0.1)
assert_type(scaled, JITScalarMatrix)
assert_type(W.shape, tuple[int, int])
assert_type(W.nnz, int)
assert_type(W.dtype, np.dtype)
assert_type(W.tocsr(), scipy.sparse.csr_array)
gradient: JITScalarMatrix = jax.grad(lambda W: (W @ s).sum())(W)
dense: jax.Array = W.todense()
same: jax.Array = jitsmv(0.5, 0.1, s, 42, shape=(100, 200), corder=False, backend="jax")
data, indices, indptr = jits_to_csr(0.5, 0.1, 42, shape=(100, 200))


@jax.jit
def step(W: JITScalarMatrix, v: jax.Array) -> jax.Array:
    return W.T @ (W @ v)


print(jitmat.__version__, jitmat.config.deterministic, step(W, z).shape, dense.shape, data.shape, gradient.weight)
assert bool((same == y).all())

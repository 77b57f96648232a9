"""Run outside the checkout with the wheel installed: is everything there, and does the compiled backend run?"""

import pathlib

import jax.numpy as jnp

import jitmat

home = pathlib.Path(jitmat.__file__).parent
assert "site-packages" in str(home), f"imported from {home}, not from the wheel"
missing = [name for name in ("py.typed", "kernels/bernoulli.py", "cuda/walk.cuh") if not (home / name).exists()]
assert not missing, f"the wheel lacks {missing}"
W = jitmat.JITScalarMatrix(1.0, 0.3, 1, shape=(40, 30), backend="numba")
x = jnp.ones(30)
assert (W @ x == W.tocsr() @ x).all()
print("the wheel holds everything and its products are right")

"""CPU kernels in numba: the walk, the products over it, and the bridge that XLA calls them through."""

from . import bernoulli

walks = {walk.NAME: walk for walk in (bernoulli,)}

"""CPU kernels in numba: the walk, the products over it, and the bridge that XLA calls them through."""

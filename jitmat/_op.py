"""A primitive whose kernel differs by platform and backend, and that still jits, differentiates and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "rocm", "tpu": "tpu"}
ANY = "any"

KernelGenerator = Callable[..., Callable[..., Sequence[Any]]]


def general_batching_rule(prim, args, axes, **params):
    """Batch a primitive by scanning it: `y[i] = prim(args[0][i], ...)` for the mapped operands.

    Parameters
    ----------
    prim : jax.extend.core.Primitive or XLACustomKernel
        What to bind, once per element of the batch.
    args : sequence of array
        The operands.
    axes : sequence of (int or None)
        The batch axis of each operand; None where it is not mapped.
    **params
        The primitive's parameters.

    Returns
    -------
    outputs, output_axes
        Outputs stacked on axis 0. With no mapped operand the primitive is bound once and every axis is None.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax.lax import add_p
    >>> from jitmat import general_batching_rule
    >>> general_batching_rule(add_p, (jnp.arange(3), jnp.int32(10)), (0, None))
    (Array([10, 11, 12], dtype=int32), 0)
    """
    prim = getattr(prim, "primitive", prim)
    if all(axis is None for axis in axes):
        outputs = prim.bind(*args, **params)
        single = not prim.multiple_results
        return (outputs, None) if single else (outputs, [None] * len(outputs))
    mapped = [jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True) if axis is not None]

    def step(carry, slices):
        slices = iter(slices)
        operands = [x if axis is None else next(slices) for x, axis in zip(args, axes, strict=True)]
        return carry, prim.bind(*operands, **params)

    _, outputs = jax.lax.scan(step, None, mapped)
    return (outputs, [0] * len(outputs)) if prim.multiple_results else (outputs, 0)


@dataclass
class BenchmarkConfig:
    """One set of arguments that a primitive is measured on, as `XLACustomKernel.def_benchmark_data` gives them.

    Parameters
    ----------
    name : str
        A short label.
    args : tuple
        Positional arguments of the function given to `def_call`.
    kernel_kwargs : dict
        Its keyword arguments.
    data_kwargs : dict
        What else there is to know of the data, such as a density; handed to nothing.

    Examples
    --------
    >>> import jitmat
    >>> config = jitmat.binary_jitsmv_p.benchmark_data("cpu")[0]
    >>> config.name
    'NT,corder,bool'
    >>> jitmat.binary_jitsmv_p.call(*config.args, **config.kernel_kwargs, backend="jax").shape
    (1000,)
    """

    name: str
    args: tuple
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)


class XLACustomKernel:
    """A JAX primitive with several kernels: one per platform and backend, chosen when a program is lowered.

    A kernel is registered as a *generator*: a function of `outs`, a sequence of `jax.ShapeDtypeStruct`, and of the
    parameters of the call, that returns a traceable function of the operands, which returns an array per output.
    The generator runs when a program is lowered, so that it may compile. `numba_kernel` and `cuda_kernel` make such
    functions of numba and CUDA code; one may also be written in JAX, or around a `jax.ffi.ffi_call` of one's own.

    Without further rules the primitive runs eagerly and under `jit`, and is batched by `general_batching_rule`.
    Forward derivatives need `def_jvp_rule2`, reverse ones `def_transpose_rule` besides. Profiles show its name.

    Parameters
    ----------
    name : str
        The primitive's name, in a jaxpr and in profiles.
    doc : str, optional
        Its docstring.

    Notes
    -----
    `docs/own_kernel.md` goes through a whole operation: a kernel for CPUs, one for GPUs, derivatives and batching.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba
    >>> from jitmat import XLACustomKernel, cuda_kernel, numba_kernel
    >>> @numba.njit
    ... def double(x, out):
    ...     for i in range(out.size):
    ...         out[i] = 2 * x[i]
    >>> CUDA = '''extern "C" __global__ void twice(const float* x, float* out, int n) {
    ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...   if (i < n) out[i] = 2 * x[i];
    ... }'''
    >>> def on_gpu(outs, **params):
    ...     n = outs[0].shape[0]
    ...     return cuda_kernel(CUDA, "twice", outs, grid=-(-n // 256), threads=256, scalars=[n])
    >>> double_p = XLACustomKernel("double")
    >>> double_p.def_numba_kernel(lambda outs, **params: numba_kernel(double, outs))
    >>> double_p.def_cuda_raw_kernel(on_gpu)
    >>> double_p.def_jvp_rule2(lambda tangent, x, **params: double_p(tangent, **params))
    >>> double_p.def_transpose_rule(lambda cotangents, x, **params: double_p(*cotangents, **params))
    >>> twice = lambda x: double_p(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))
    >>> twice(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    >>> jax.vmap(jax.grad(lambda x: twice(x).sum()))(jnp.ones((2, 3)))
    Array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float32)
    """

    def __init__(self, name: str, doc: str | None = None):
        self.name = name
        self.__doc__ = doc or self.__doc__
        self.primitive = Primitive(name)
        self.primitive.multiple_results = True
        self._kernels: dict[tuple[str, str], KernelGenerator] = {}
        self._defaults: dict[str, str] = {}
        self._outs: Callable[..., Sequence[Any]] | None = None
        self._call: Callable[..., Any] | None = None
        self._benchmark_data: Callable[..., list[BenchmarkConfig]] | None = None
        self.tags: frozenset[str] = frozenset()
        self._eager = jax.jit(
            lambda params, *operands: self.primitive.bind(*operands, **dict(params)), static_argnums=0
        )
        self.primitive.def_impl(self._run_eagerly)
        self.primitive.def_abstract_eval(self._abstract_eval)
        mlir.register_lowering(self.primitive, mlir.lower_fun(self._kernel_of(ANY), multiple_results=True))
        batching.primitive_batchers[self.primitive] = lambda operands, axes, **params: general_batching_rule(
            self.primitive, operands, axes, **params
        )

    def __repr__(self):
        return f"XLACustomKernel({self.name!r})"

    def __call__(self, *operands, outs: Any = None, backend: str | None = None, **params):
        """Bind the primitive.

        Parameters
        ----------
        *operands : array
        outs : jax.ShapeDtypeStruct or array, or a sequence of them, optional
            Shape and dtype of each output. May be left out when `def_outs` says how they follow from the rest.
        backend : str, optional
            One of `available_backends(platform)`; None takes the platform's default.
        **params
            Hashable parameters, handed to the kernel generators and to every rule.

        Returns
        -------
        jax.Array, or a sequence of them, as `outs` is
        """
        if outs is None:
            if self._outs is None:
                raise TypeError(f"{self.name} needs outs=[jax.ShapeDtypeStruct(shape, dtype), ...]")
            outs = self._outs(*operands, **params)
        if backend is not None and backend not in {known for _, known in self._kernels}:
            raise ValueError(f"{self.name} has no backend {backend!r}; it has {sorted({b for _, b in self._kernels})}")
        for name, value in params.items():
            try:
                hash(value)
            except TypeError:
                raise TypeError(
                    f"{self.name}: the parameter {name} must be hashable, got {type(value).__name__}"
                ) from None
        leaves, tree = jax.tree.flatten(outs)
        described = tuple(jax.ShapeDtypeStruct(tuple(out.shape), np.dtype(out.dtype)) for out in leaves)
        return tree.unflatten(self.primitive.bind(*operands, outs=described, backend=backend, **params))

    # -- kernels -------------------------------------------------------------------------------------

    def def_kernel(self, backend: str, platform: str, kg: KernelGenerator, asdefault: bool = False):
        """Register a kernel generator under the name of a backend, for "cpu", "gpu" ("cuda", "rocm") or "tpu".

        The first of a platform is its default until another is made so.
        """
        platform = _platform(platform)
        self._kernels[platform, backend] = kg
        if asdefault or platform not in self._defaults:
            self._defaults[platform] = backend
        if platform != ANY:
            rule = mlir.lower_fun(self._kernel_of(platform), multiple_results=True)
            mlir.register_lowering(self.primitive, rule, platform=platform)

    def def_numba_kernel(self, kg: KernelGenerator, asdefault: bool = False):
        """Register the kernel for CPUs that numba compiles: `kg(outs, **params)` returns what `numba_kernel` makes."""
        self.def_kernel("numba", "cpu", kg, asdefault)

    def def_cuda_raw_kernel(self, kg: KernelGenerator, asdefault: bool = False):
        """Register the kernel in CUDA, for NVIDIA GPUs: `kg(outs, **params)` returns what `cuda_kernel` makes."""
        self.def_kernel("cuda_raw", "cuda", kg, asdefault)

    def def_jax_kernel(self, kg: KernelGenerator):
        """Register the kernel in plain JAX, which every platform can run."""
        self.def_kernel("jax", ANY, kg)

    def available_backends(self, platform: str | None = None) -> list[str]:
        """Names of the backends that can run on a platform (default: the one JAX uses)."""
        platform = _platform(platform or jax.default_backend())
        return [backend for where, backend in self._kernels if where in (platform, ANY)]

    def set_default(self, platform: str, backend: str):
        """Make `backend` what `backend=None` means on `platform`, for programs lowered from now on."""
        if backend not in self.available_backends(platform):
            raise ValueError(
                f"{self.name} has no backend {backend!r} on {platform}; it has {self.available_backends(platform)}"
            )
        if self._defaults.get(_platform(platform)) != backend:
            self._defaults[_platform(platform)] = backend
            jax.clear_caches()

    def get_default(self, platform: str | None = None) -> str:
        """The backend that `backend=None` means on a platform."""
        platform = _platform(platform or jax.default_backend())
        default = self._defaults.get(platform, self._defaults.get(ANY))
        if default is None:
            where = "this platform" if platform == ANY else platform
            known = ", ".join(f"{backend} on {each}" for each, backend in self._kernels) or "none at all"
            raise NotImplementedError(f"{self.name} has no kernel for {where}; it has {known}")
        return default

    def _kernel_of(self, platform):
        """A traceable function that picks the kernel by platform and the `backend` parameter."""

        def run(*operands, outs, backend, **params):
            chosen = backend or self.get_default(platform)
            generator = self._kernels.get((platform, chosen), self._kernels.get((ANY, chosen)))
            if generator is None:
                raise NotImplementedError(
                    f"{self.name} has no backend {chosen!r} on {platform}; it has {self.available_backends(platform)}"
                )
            with jax.named_scope(self.name):
                results = jax.tree.leaves(generator(outs=outs, **params)(*operands))
            made, promised = [[(tuple(x.shape), np.dtype(x.dtype)) for x in each] for each in (results, outs)]
            if made != promised:
                raise TypeError(
                    f"{self.name}'s kernel {chosen!r} must return {_described(outs)}, got {_described(results)}"
                )
            return results

        return run

    # -- rules ---------------------------------------------------------------------------------------

    def def_outs(self, outs: Callable[..., Sequence[Any]]):
        """Say how the outputs follow: `outs(*operands, **params)` gives what a call without `outs=` takes for it."""
        self._outs = outs

    def def_jvp_rule(self, rule: Callable[..., Any]):
        """A whole rule `rule(primals, tangents, **params) -> (outputs, tangents_out)`."""
        ad.primitive_jvps[self.primitive] = rule

    def def_jvp_rule2(self, *rules: Callable[..., Any] | None):
        """One rule per operand, None where an operand has no tangent.

        `rule(tangent, *primals, outs=..., backend=..., **params)` gives the tangents of all outputs that this
        operand's tangent causes; the tangents of several operands are added.
        """

        def jvp(primals, tangents, **params):
            outputs = self.primitive.bind(*primals, **params)
            terms = [
                rule(tangent, *primals, **params)
                for rule, tangent in zip(rules, tangents, strict=True)
                if rule is not None and type(tangent) is not ad.Zero
            ]
            if not terms:
                return outputs, [ad.Zero(jax.typeof(output).to_tangent_aval()) for output in outputs]
            return outputs, [_sum(parts) for parts in zip(*terms, strict=True)]

        ad.primitive_jvps[self.primitive] = jvp

    def def_transpose_rule(self, rule: Callable[..., Any]):
        """The rule `rule(cotangents, *operands, **params) -> a cotangent, or None, per operand`.

        The operands in which the primitive is taken as linear are `jax.interpreters.ad.UndefinedPrimal`, of which
        only the `aval` is known; theirs are the cotangents that are wanted. The others are arrays, and get None.
        """
        ad.primitive_transposes[self.primitive] = rule

    def def_batching_rule(self, rule: Callable[..., Any]):
        """The rule `rule(operands, axes, **params) -> (outputs, output_axes)`."""
        batching.primitive_batchers[self.primitive] = rule

    def register_general_batching(self):
        """Batch by `general_batching_rule`, as a new primitive already does."""
        self.def_batching_rule(lambda operands, axes, **params: general_batching_rule(self, operands, axes, **params))

    # -- what is said about it -----------------------------------------------------------------------

    def def_call(self, function: Callable[..., Any]):
        """Name the function that users call, which checks its arguments and binds the primitive."""
        self._call = function

    def call(self, *args, **kwargs):
        """The function given to `def_call`, on these arguments."""
        if self._call is None:
            raise ValueError(f"{self.name} has no function to call: give it one by def_call")
        return self._call(*args, **kwargs)

    def def_tags(self, *tags: str):
        """Words to find the primitive by, such as "float" or "mv"; kept as `tags`."""
        self.tags = frozenset(tags)

    def def_benchmark_data(self, function: Callable[..., list[BenchmarkConfig]]):
        """Name the function that makes the data to measure on: `function(platform="cpu")` lists BenchmarkConfigs."""
        self._benchmark_data = function

    def benchmark_data(self, platform: str | None = None) -> list[BenchmarkConfig]:
        """What to measure the primitive on: `call(*config.args, **config.kernel_kwargs, backend=...)` for each."""
        if self._benchmark_data is None:
            raise ValueError(f"{self.name} has no data to measure on: give it some by def_benchmark_data")
        return self._benchmark_data(platform=_platform(platform or jax.default_backend()))

    # -- how it runs ---------------------------------------------------------------------------------

    def _run_eagerly(self, *operands, **params):
        with jax.disable_jit(False):  # else an eager call under disable_jit would come back here for ever
            return self._eager(tuple(params.items()), *operands)

    @staticmethod
    def _abstract_eval(*operands, outs, **params):
        return [ShapedArray(out.shape, out.dtype) for out in outs]


def _platform(name: str) -> str:
    return PLATFORMS.get(name.lower(), name.lower())


def _described(arrays):
    return ", ".join(f"{np.dtype(x.dtype)}[{','.join(map(str, x.shape))}]" for x in arrays) or "nothing"


def _sum(terms):
    total = terms[0]
    for term in terms[1:]:
        total = ad.add_tangents(total, term)
    return total

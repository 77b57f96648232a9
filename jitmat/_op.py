"""A primitive whose kernel differs by platform and backend, and that still jits, differentiates and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class XLACustomKernel:
    """A JAX primitive with several kernels: one per platform and backend, chosen when a program is lowered.

    A kernel is registered as a *generator*: a function of the primitive's parameters that returns a
    traceable function of its operands, which returns one array per output. The generator runs when a
    program is lowered, so that it may compile; `jax.ffi.ffi_call` is what such a function usually is
    made of. Without further rules the primitive runs eagerly and under `jit` and is batched by
    `general_batching_rule`; derivatives need `def_jvp_rule2` and `def_transpose_rule`.

    Parameters
    ----------
    name : str
        The primitive's name, as a jaxpr shows it.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from jitmat import XLACustomKernel
    >>> double_p = XLACustomKernel("double")
    >>> double_p.def_jax_kernel(lambda **params: lambda x: [2 * x])
    >>> double_p.def_jvp_rule2(lambda tangent, x, **params: double_p(tangent, outs=[tangent]))
    >>> x = jnp.arange(3.0)
    >>> double_p(x, outs=[jax.ShapeDtypeStruct(x.shape, x.dtype)])[0]
    Array([0., 2., 4.], dtype=float32)
    """

    def __init__(self, name: str):
        self.name = name
        self.primitive = Primitive(name)
        self.primitive.multiple_results = True
        self._kernels: dict[tuple[str, str], KernelGenerator] = {}
        self._defaults: dict[str, str] = {}
        self._outs: Callable[..., Sequence[Any]] | None = None
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

    def __call__(self, *operands, outs: Sequence[Any] | None = None, backend: str | None = None, **params):
        """Bind the primitive.

        Parameters
        ----------
        *operands : array
        outs : sequence of jax.ShapeDtypeStruct or array, optional
            Shape and dtype of each output. May be left out when `def_call` says how they follow from the rest.
        backend : str, optional
            One of `available_backends(platform)`; None takes the platform's default.
        **params
            Hashable parameters, handed to the kernel generators and to every rule.

        Returns
        -------
        list of jax.Array
        """
        if outs is None:
            if self._outs is None:
                raise TypeError(f"{self.name} needs outs=[jax.ShapeDtypeStruct(shape, dtype), ...]")
            outs = self._outs(*operands, **params)
        if backend is not None and backend not in {known for _, known in self._kernels}:
            raise ValueError(f"{self.name} has no backend {backend!r}; it has {sorted({b for _, b in self._kernels})}")
        described = tuple((tuple(out.shape), np.dtype(out.dtype)) for out in outs)
        return self.primitive.bind(*operands, outs=described, backend=backend, **params)

    # -- kernels -------------------------------------------------------------------------------------

    def def_kernel(self, platform: str, backend: str, generator: KernelGenerator, asdefault: bool = False):
        """Register a kernel generator; the first of a platform is its default until another is made so."""
        platform = _platform(platform)
        self._kernels[platform, backend] = generator
        if asdefault or platform not in self._defaults:
            self._defaults[platform] = backend
        if platform != ANY:
            rule = mlir.lower_fun(self._kernel_of(platform), multiple_results=True)
            mlir.register_lowering(self.primitive, rule, platform=platform)

    def def_numba_kernel(self, generator: KernelGenerator, asdefault: bool = False):
        """Register the kernel for CPUs that numba compiles."""
        self.def_kernel("cpu", "numba", generator, asdefault)

    def def_cuda_raw_kernel(self, generator: KernelGenerator, asdefault: bool = False):
        """Register the kernel for NVIDIA GPUs that comes from CUDA source."""
        self.def_kernel("cuda", "cuda_raw", generator, asdefault)

    def def_jax_kernel(self, generator: KernelGenerator):
        """Register the kernel in plain JAX, which every platform can run."""
        self.def_kernel(ANY, "jax", generator)

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
        self._defaults[_platform(platform)] = backend
        jax.clear_caches()

    def get_default(self, platform: str | None = None) -> str:
        """The backend that `backend=None` means on a platform."""
        platform = _platform(platform or jax.default_backend())
        default = self._defaults.get(platform, self._defaults.get(ANY))
        if default is None:
            raise NotImplementedError(f"{self.name} has no kernel for {platform}")
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
            structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in outs]
            return list(generator(outs=structs, **params)(*operands))

        return run

    # -- rules ---------------------------------------------------------------------------------------

    def def_call(self, outs: Callable[..., Sequence[Any]]):
        """Say how the outputs' shapes and dtypes follow from operands and parameters."""
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
        """The rule `rule(cotangents, *operands, **params) -> a cotangent, or None, per operand`."""
        ad.primitive_transposes[self.primitive] = rule

    def def_batching_rule(self, rule: Callable[..., Any]):
        """The rule `rule(operands, axes, **params) -> (outputs, output_axes)`."""
        batching.primitive_batchers[self.primitive] = rule

    def register_general_batching(self):
        """Batch by `general_batching_rule`, as a new primitive already does."""
        self.def_batching_rule(lambda operands, axes, **params: general_batching_rule(self, operands, axes, **params))

    # -- how it runs ---------------------------------------------------------------------------------

    def _run_eagerly(self, *operands, **params):
        with jax.disable_jit(False):  # else an eager call under disable_jit would come back here for ever
            return self._eager(tuple(params.items()), *operands)

    @staticmethod
    def _abstract_eval(*operands, outs, **params):
        return [ShapedArray(shape, dtype) for shape, dtype in outs]


def _platform(name: str) -> str:
    return PLATFORMS.get(name.lower(), name.lower())


def _sum(terms):
    total = terms[0]
    for term in terms[1:]:
        total = ad.add_tangents(total, term)
    return total

"""Somebody's own kernels get jit, grad and vmap from the operation layer, and their mistakes get one sentence."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from cases import on_cpu

import jitmat
from jitmat import BenchmarkConfig, XLACustomKernel, _cuda_driver, cuda_kernel, numba_kernel

PRODUCTS = [jitmat.jitsmv_p, jitmat.jitsmm_p, jitmat.binary_jitsmv_p, jitmat.binary_jitsmm_p]
EXAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "examples" / "own_kernel.py"
F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_kernel", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_example(example, backend):
    """The example's operation against NumPy, and its derivatives and batches against those of a dense matrix."""
    k, x = np.array([1.0, -0.5, 0.25, 2.0], F32), np.random.default_rng(0).standard_normal(300).astype(F32)
    dense = lambda k, x: sum(k[d] * jnp.roll(x, -d) for d in range(4))
    ring = lambda k, x: example.ring(k, x, backend)
    loss = lambda f: lambda k, x: jnp.sum(jnp.tanh(f(k, x)) ** 2)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    close(ring(k, x), dense(k, x))
    close(jax.jit(ring)(k, x), dense(k, x))
    for mine, theirs in zip(*(jax.grad(loss(f), (0, 1))(k, x) for f in (ring, dense)), strict=True):
        close(mine, theirs)
    close(*(jax.jvp(f, (k, x), (k[::-1].copy(), x + 1))[1] for f in (ring, dense)))
    batch = np.stack([x, 2 * x, -x])
    close(*(jax.vmap(f, (None, 0))(k, batch) for f in (ring, dense)))
    close(*(jax.vmap(f, (None, 1), 1)(k, batch.T) for f in (ring, dense)))
    close(*(jax.vmap(jax.grad(loss(f), 1), (None, 0))(k, batch) for f in (ring, dense)))
    close(*(jax.hessian(loss(f))(k, x) for f in (ring, dense)))


@on_cpu
def test_the_example_has_jit_grad_and_vmap(example):
    check_example(example, "numba")


@on_cpu
def test_the_example_runs_as_a_file():
    run = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "equals NumPy: True" in run.stdout


@pytest.mark.gpu
def test_the_example_has_jit_grad_and_vmap_on_a_gpu(example):
    check_example(example, "cuda_raw")
    text = jax.jit(example.ring).lower(jnp.ones(3), jnp.ones(1000)).compile().as_text()
    assert 'custom_call_target="jitmat_cuda"' in text
    assert re.search(r'op_name="[^"]*/ring/', text)


ADD = """
extern "C" __global__ void add(
    const float* x, const int* at, const float*, float* seen, float* y, double w, float s, int n) {
  int i = threadIdx.x + blockDim.x * threadIdx.y;
  extern __shared__ float held[];
  held[i] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) atomicAdd(y + at[i], float(w) * held[i] + s);
  if (i == 0) seen[0] = FACTOR * (gridDim.x + gridDim.y + gridDim.z);
}"""


@pytest.mark.gpu
def test_all_that_a_cuda_kernel_can_be_given_arrives():
    n, at = 50, np.arange(50, dtype=np.int32) % 7
    outs = [jax.ShapeDtypeStruct((), F32), jax.ShapeDtypeStruct((7,), F32)]
    add = cuda_kernel(
        ADD, "add", outs, grid=1, threads=(16, 4, 1), scalars=[2.0, np.float32(0.5), n], shared=256,
        options=["-DFACTOR=3"], input_output_aliases={2: 1},
    )  # fmt: skip
    x, start = np.arange(n, dtype=F32), np.full(7, 100, F32)
    for f in (add, jax.jit(add)):
        seen, y = f(x, at, start)
        assert seen == 9
        np.testing.assert_allclose(y, 100 + np.bincount(at, 2 * x + 0.5))


@pytest.mark.gpu
def test_a_cuda_kernel_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="has no kernel 'other': declare it extern"):
        cuda_kernel(ADD, "other", [], grid=1, threads=1, options=["-DFACTOR=1"])()


def compiled(text, *options):
    try:
        _cuda_driver.nvrtc()
    except OSError as error:
        pytest.skip(str(error))
    return _cuda_driver.compile_source(_cuda_driver.Source("the source of x", text, options), _cuda_driver.target(90))


def test_nvrtc_compiles_the_example(example):
    assert compiled(example.CUDA).startswith(b"\x7fELF")
    assert compiled(ADD, "-DFACTOR=3").startswith(b"\x7fELF")


def test_source_that_does_not_compile_shows_nvrtcs_log():
    with pytest.raises(RuntimeError, match=r"NVRTC cannot compile the source of x .*\"FACTOR\" is undefined"):
        compiled(ADD)


def test_a_missing_nvrtc_or_driver_is_one_sentence(monkeypatch):
    def missing():
        raise OSError("NVRTC is missing: `pip install nvidia-cuda-nvrtc`")

    monkeypatch.setattr(_cuda_driver, "device", lambda: _cuda_driver.Device(90, 132, 1, 1, True))
    monkeypatch.setattr(_cuda_driver, "nvrtc", missing)
    with pytest.raises(OSError, match="NVRTC is missing"):
        cuda_kernel("// another text", "f", [], grid=1, threads=1)()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"grid": (1, 2, 3, 4)}, TypeError, "grid must be one to three integers"),
        ({"grid": -1}, TypeError, "grid must be"),
        ({"threads": 1.5}, TypeError, "threads must be"),
        ({"threads": 0}, ValueError, "1 to 1024 threads"),
        ({"threads": (64, 32)}, ValueError, "1 to 1024 threads"),
        ({"grid": 0}, ValueError, "would leave the outputs unset"),
        ({"scalars": ["3"]}, TypeError, "scalars must be"),
        ({"scalars": [1j]}, TypeError, "scalars must be"),
        ({"scalars": [jnp.float32(1)]}, TypeError, "scalars must be"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(change, error, said):
    with pytest.raises(error, match=said):
        cuda_kernel("", "f", jax.ShapeDtypeStruct((2,), F32), **{"grid": 1, "threads": 32, **change})


@pytest.mark.parametrize(
    ("scalar", "bits"),
    [
        (3, 3),
        (-1, -1),
        (2**64 - 1, -1),
        (True, 1),
        (1.0, 0x3FF0000000000000),
        (np.float32(1), 0x3F800000),
        (np.int16(-2), 0xFFFE),
        (np.float16(1), 0x3C00),
    ],
)
def test_a_scalar_lies_where_cuda_reads_it(scalar, bits):
    assert jitmat._own_kernels._word(scalar) == bits


@numba.njit
def sort_some(x, mask, limit, sorted_, least):
    if x[0, 0] < 0:
        raise ValueError("negative")
    for i in range(x.shape[0]):
        row = np.sort(x[i])
        for j in range(x.shape[1]):
            sorted_[i, j] = row[j] if mask[j] else limit[()]
    least[()] = x.min()


def run_sort(shape=(3, 4), dtype=F32):
    outs = [jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((), dtype)]
    return numba_kernel(sort_some, outs)


@on_cpu
def test_a_numba_kernel_takes_arrays_of_any_shape_and_dtype(x64):
    for shape in ((3, 4), (1, 9)):
        for dtype in (np.float32, np.int16, *([np.float64] if x64 else [])):
            x = np.random.default_rng(0).permutation(shape[0] * shape[1]).reshape(shape).astype(dtype)
            mask = np.arange(shape[1]) % 2 == 0
            for f in (run_sort(shape, dtype), jax.jit(run_sort(shape, dtype))):
                ordered, least = f(x, mask, dtype(7))
                np.testing.assert_array_equal(ordered, np.where(mask, np.sort(x), 7))
                assert ordered.dtype == least.dtype == dtype
                assert least == 0


@on_cpu
def test_a_numba_kernel_is_compiled_once_for_all_shapes():
    before = jitmat._own_kernels._registered.cache_info().misses
    for n in (5, 6, 7):
        run_sort((2, n))(np.ones((2, n), F32), np.ones(n, bool), F32.type(0))
    assert jitmat._own_kernels._registered.cache_info().misses <= before + 1


@on_cpu
def test_an_exception_in_a_numba_kernel_is_reported():
    with pytest.raises(Exception, match="the numba kernel sort_some raised an exception"):
        jax.block_until_ready(jax.jit(run_sort())(-np.ones((3, 4), F32), np.ones(4, bool), F32.type(0)))


@on_cpu
def test_an_output_may_begin_as_an_operand():
    @numba.njit
    def add_at(total, at, out):
        for i in at:
            out[i] += 1

    add = numba_kernel(add_at, jax.ShapeDtypeStruct((3,), F32), input_output_aliases={0: 0})
    start = jnp.full(3, 10.0)
    np.testing.assert_array_equal(jax.jit(add)(start, jnp.array([0, 2, 2])), [11, 10, 12])
    np.testing.assert_array_equal(start, [10, 10, 10])


@on_cpu
@pytest.mark.parametrize(
    ("function", "dtype", "said"),
    [
        (lambda x, out: None, F32, "takes a function compiled by numba.njit"),
        (numba.njit(lambda x, out: x.nothing), F32, "numba cannot compile <lambda> for .float32 of 1 dim"),
        (sort_some, jnp.bfloat16, "numba cannot compile sort_some for .*bfloat16"),
    ],
)
def test_a_function_that_numba_cannot_run_is_refused(function, dtype, said):
    with pytest.raises(TypeError, match=said):
        numba_kernel(function, jax.ShapeDtypeStruct((3,), dtype))(np.ones(3, F32))


def test_without_numba_a_kernel_says_so(monkeypatch):
    monkeypatch.setattr(jitmat._cpu, "problem", lambda: "numba cannot be used; `pip install numba`")
    with pytest.raises(ImportError, match=r"a numba kernel cannot run here: .*pip install numba"):
        run_sort()(np.ones((3, 4), F32), np.ones(4, bool), F32.type(0))


def own(name="own"):
    """A primitive of one operand, doubled."""
    kernel = XLACustomKernel(name)
    kernel.def_jax_kernel(lambda outs, **params: lambda x: 2 * x)
    return kernel


def test_outs_decides_what_comes_back():
    x = jnp.arange(3.0)
    assert isinstance(own()(x, outs=x), jax.Array)
    assert isinstance(own()(x, outs=[x]), list)
    kernel = own()
    with pytest.raises(TypeError, match="own needs outs="):
        kernel(x)
    kernel.def_outs(lambda x, **params: x)
    np.testing.assert_array_equal(kernel(x), 2 * x)


def test_a_kernel_that_breaks_its_promise_is_caught():
    with pytest.raises(TypeError, match=r"own's kernel 'jax' must return float32\[4\], got float32\[3\]"):
        own()(jnp.ones(3), outs=jax.ShapeDtypeStruct((4,), F32))


def test_the_first_kernel_is_the_default_until_another_is():
    kernel, platform = own(), jax.default_backend()
    kernel.def_kernel("third", platform, lambda outs, **params: lambda x: 3 * x)
    assert kernel.available_backends() == ["jax", "third"]
    assert kernel.get_default() == "third"
    x = jnp.ones(2)
    assert kernel(x, outs=x)[0] == 3
    assert kernel(x, outs=x, backend="jax")[0] == 2
    kernel.set_default(platform, "jax")
    assert kernel(x, outs=x)[0] == 2
    kernel.def_kernel("fourth", platform, lambda outs, **params: lambda x: 4 * x, asdefault=True)
    assert kernel.get_default(platform) == "fourth"
    with pytest.raises(ValueError, match="has no backend 'fifth'"):
        kernel.set_default(platform, "fifth")
    with pytest.raises(ValueError, match="has no backend 'fifth'"):
        kernel(x, outs=x, backend="fifth")


def test_a_platform_without_a_kernel_is_named():
    kernel, x = XLACustomKernel("nowhere"), jnp.ones(2)
    with pytest.raises(NotImplementedError, match="nowhere has no kernel for this platform; it has none at all"):
        kernel(x, outs=x)
    kernel.def_kernel("mine", "tpu", lambda outs, **params: lambda x: x)
    with pytest.raises(NotImplementedError, match="nowhere has no kernel for this platform; it has mine on tpu"):
        kernel(x, outs=x)


def test_a_parameter_must_be_hashable():
    with pytest.raises(TypeError, match="own: the parameter sizes must be hashable, got list"):
        own()(jnp.ones(2), outs=jnp.ones(2), sizes=[1])


def test_what_is_said_about_a_primitive_can_be_read():
    kernel = XLACustomKernel("own", doc="Doubles.")
    assert kernel.__doc__ == "Doubles."
    for method in (kernel.call, kernel.benchmark_data):
        with pytest.raises(ValueError, match="own has no"):
            method()
    kernel.def_call(lambda x, backend=None: 2 * x)
    kernel.def_tags("one", "two")
    kernel.def_benchmark_data(lambda *, platform: [BenchmarkConfig(platform, (3,), data_kwargs={"n": 1})])
    (config,) = kernel.benchmark_data("gpu")
    assert (config.name, config.data_kwargs, kernel.tags) == ("cuda", {"n": 1}, {"one", "two"})
    assert kernel.call(*config.args, **config.kernel_kwargs, backend="jax") == 6


@pytest.mark.parametrize("primitive", PRODUCTS, ids=lambda primitive: primitive.name)
def test_every_backend_computes_a_primitives_benchmark_data(primitive):
    configs = primitive.benchmark_data()
    assert len({config.name for config in configs}) == len(configs) == 8
    assert primitive.tags == {"jit_scalar", "binary" if "binary" in primitive.name else "float", primitive.name[-2:]}
    for config in configs:
        assert config.kernel_kwargs["shape"] == (1000, 1000)
        assert config.data_kwargs["prob"] == config.args[1] == 0.1
        results = [
            primitive.call(*config.args, **config.kernel_kwargs, backend=backend)
            for backend in primitive.available_backends()
        ]
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-4)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("ndim", [1, 2])
def test_profiles_show_the_operations_name(backend, binary, ndim):
    W = jitmat.JITScalarMatrix(0.5, 0.1, 1, shape=(30, 20), backend=backend)
    x = jnp.ones((20, 2)[:ndim], bool if binary else F32)
    name = f"{'binary_' if binary else ''}jits{'mm' if ndim == 2 else 'mv'}"
    function = getattr(jitmat, name)
    for f in (lambda x: W @ x, lambda x: function(0.5, 0.1, x, 1, shape=(30, 20), backend=backend)):
        assert re.search(rf'op_name="[^"]*\b{name}/', jax.jit(f).lower(x).compile().as_text())
    x = jnp.ones((20, 2)[:ndim])
    text = jax.jit(jax.grad(lambda x: (W @ x).sum())).lower(x).compile().as_text()
    assert re.search(rf'op_name="[^"]*\bjits{"mm" if ndim == 2 else "mv"}/', text)

"""From a `.cu` file to a kernel of the driver: NVRTC at first use, cubins on disk, handles without a context.

NVRTC and the driver are reached through ctypes: no compiler on the machine, no package beside JAX's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import hashlib
import importlib.util
import os
import threading
from pathlib import Path
from typing import NamedTuple

from . import _disk

_lock = threading.Lock()


class Device(NamedTuple):
    """What a launch has to know of the machine's GPUs: the least of each where they differ."""

    capability: int  # 90 for compute capability 9.0
    multiprocessors: int
    shared: int  # bytes of shared memory that a thread block may ask for
    shared_all: int  # and that a multiprocessor has
    alike: bool


def folder() -> Path:
    """Where the `.cu` files lie: beside this package in a wheel, beside its parent in a checkout."""
    here = Path(__file__).resolve().parent
    for path in (here / "cuda", here.parent / "cuda"):
        if (path / "walk.cuh").exists():
            return path
    raise FileNotFoundError(f"jitmat's CUDA sources are neither in {here / 'cuda'} nor in {here.parent / 'cuda'}")


def _nvrtc_files() -> list[str]:
    """NVIDIA's wheels of CUDA 13 and 12, then the system's."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    found = [
        path
        for root in roots
        for pattern in ("cu*/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*")
        for path in sorted(glob.glob(os.path.join(root, pattern)), reverse=True)
    ]
    return [*(path for path in found if ".alt" not in path), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


@functools.lru_cache(maxsize=1)
def nvrtc() -> ctypes.CDLL:
    """The newest NVRTC that is installed and not of a later CUDA than the driver."""
    newest = ctypes.c_int(1 << 30)
    with contextlib.suppress(OSError):  # compiling needs no driver
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(newest))
    for name in _nvrtc_files():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if nvrtc_version(library)[0] <= newest.value // 1000:
            return library
    raise OSError("NVRTC is missing: `pip install nvidia-cuda-nvrtc` (it comes with `jax[cuda12]` and `jax[cuda13]`)")


def nvrtc_version(library: ctypes.CDLL | None = None) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    (library or nvrtc()).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


@functools.lru_cache(maxsize=1)
def driver() -> ctypes.CDLL:
    """libcuda, initialized."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise OSError("there is no NVIDIA driver (libcuda.so.1)") from None
    if not hasattr(library, "cuLibraryLoadData"):
        raise OSError("the NVIDIA driver is too old: jitmat needs one for CUDA 12 or later")
    _check(library, library.cuInit(0), "cuInit")
    return library


def _check(library, status: int, what: str):
    if status:
        text = ctypes.c_char_p()
        library.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what} failed: {(text.value or b'unknown error').decode()} ({status})")


def _call(name: str, *args):
    _check(driver(), getattr(driver(), name)(*args), name)


@functools.lru_cache(maxsize=1)
def device() -> Device:
    count = ctypes.c_int()
    _call("cuDeviceGetCount", ctypes.byref(count))
    if not count.value:
        raise OSError("the NVIDIA driver finds no GPU")

    def attribute(ordinal, number):
        value = ctypes.c_int()
        _call("cuDeviceGetAttribute", ctypes.byref(value), number, ordinal)
        return value.value

    # 75, 76: compute capability; 16: multiprocessors; 97 and 81: shared memory by opt-in and per multiprocessor
    rows = [
        (10 * attribute(i, 75) + attribute(i, 76), attribute(i, 16), attribute(i, 97), attribute(i, 81))
        for i in range(count.value)
    ]
    return Device(*(min(column) for column in zip(*rows)), alike=len({row[0] for row in rows}) == 1)


@functools.lru_cache(maxsize=1)
def architectures() -> tuple[int, ...]:
    """Compute capabilities that the installed NVRTC compiles for."""
    count = ctypes.c_int()
    nvrtc().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    values = (ctypes.c_int * count.value)()
    nvrtc().nvrtcGetSupportedArchs(values)
    return tuple(sorted(values))


def target(capability: int, alike: bool = True) -> str:
    """What to compile for: the card itself, or PTX for the driver where cards differ or NVRTC is the older."""
    known = [each for each in architectures() if each <= capability]
    if not known:
        raise OSError(
            f"the installed NVRTC {'.'.join(map(str, nvrtc_version()))} does not know GPUs of compute capability "
            f"{capability / 10}: `pip install` the `jax[cuda12]` that does"
        )
    return f"sm_{capability}" if alike and known[-1] == capability else f"compute_{known[-1]}"


class Source(NamedTuple):
    """What NVRTC compiles, and with which options."""

    name: str
    text: str
    options: tuple[str, ...]
    headers: tuple[tuple[str, str], ...] = ()  # (name, text)


@functools.cache
def source_file(name: str, defines: tuple[str, ...]) -> Source:
    """`<name>.cu` of this package."""
    headers = tuple((path.name, path.read_text(encoding="utf-8")) for path in sorted(folder().glob("*.cuh")))
    options = ("--device-as-default-execution-space", *(f"-D{each}" for each in defines))
    return Source(f"{name}.cu", (folder() / f"{name}.cu").read_text(encoding="utf-8"), options, headers)


def compile_source(source: Source, architecture: str) -> bytes:
    """A cubin (`sm_*`) or PTX (`compute_*`)."""
    library, program = nvrtc(), ctypes.c_void_p()
    strings = lambda texts: (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
    names, texts = zip(*source.headers) if source.headers else ((), ())
    library.nvrtcCreateProgram(
        ctypes.byref(program),
        source.text.encode(),
        source.name.encode(),
        len(texts),
        strings(texts),
        strings(names),
    )
    options = [f"--gpu-architecture={architecture}", "--std=c++17", *source.options]
    try:
        status = library.nvrtcCompileProgram(program, len(options), strings(options))
        if status:
            log = _nvrtc_output(program, "ProgramLog")
            raise RuntimeError(
                f"NVRTC cannot compile {source.name} {' '.join(options)}: {log.decode(errors='replace')}"
            )
        if architecture.startswith("sm_"):
            return _nvrtc_output(program, "CUBIN")
        return _nvrtc_output(program, "PTX") + b"\0"
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc_output(program, kind: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc(), f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc(), f"nvrtcGet{kind}")(program, text)
    return text.raw if kind == "CUBIN" else text.value


def digest(source: Source, architecture: str) -> str:
    """Names a compiled file by all that decides its content."""
    return hashlib.sha256(repr((source, architecture, nvrtc_version())).encode()).hexdigest()


def cubin(source: Source, architecture: str) -> bytes:
    """`compile_source`, from the cache on disk where it is there and whole."""
    key = digest(source, architecture)
    code = _disk.read("cubin", key)
    if code is None:
        code = compile_source(source, architecture)
        _disk.write("cubin", key, code)
    return code


class Kernel(NamedTuple):
    handle: int  # a CUkernel: good in every context
    key: int  # names the kernel in every process alike


@functools.cache
def _library(source: Source) -> tuple[ctypes.c_void_p, bytes, str]:
    """Loaded once and never unloaded, since compiled programs hold its kernels."""
    architecture = target(device().capability, device().alike)
    code, library = cubin(source, architecture), ctypes.c_void_p()
    _call("cuLibraryLoadData", ctypes.byref(library), code, None, None, 0, None, None, 0)
    return library, code, digest(source, architecture)


@functools.cache
def _kernel(source: Source, function: str) -> Kernel:
    library, _, content = _library(source)
    handle = ctypes.c_void_p()
    if driver().cuLibraryGetKernel(ctypes.byref(handle), library, function.encode()):
        raise ValueError(f'{source.name} has no kernel {function!r}: declare it extern "C" __global__')
    key = int.from_bytes(hashlib.sha256(f"{content} {function}".encode()).digest()[:8], "little") >> 1
    return Kernel(handle.value or 0, key)


_allowed: dict[int, int] = {}


def kernel(source: Source, function: str, shared: int) -> Kernel:
    """A kernel, ready for `shared` bytes of dynamic shared memory."""
    with _lock:
        found = _kernel(source, function)
        if shared > _allowed.get(found.handle, 24 * 1024):  # with what it has statically, 48 KB need no leave
            count = ctypes.c_int()
            _call("cuDeviceGetCount", ctypes.byref(count))
            for ordinal in range(count.value):  # attribute 8: dynamic shared memory that a block may ask for
                _call("cuKernelSetAttribute", 8, shared, ctypes.c_void_p(found.handle), ordinal)
            _allowed[found.handle] = shared
        return found

"""What is installed, which devices and backends can be used here, and what the others would need?"""

from __future__ import annotations

import importlib.metadata
import platform

import jax

from . import __version__, _cpu, _cuda
from ._products import jitsmv_p

SUMMARY = "versions, devices, backends and what is missing for the others"
DESCRIPTION = "Print versions, devices, the backends of each platform, and what is missing for the others."

PACKAGES = ("jax", "jaxlib", "numba", "brainunit", "scipy", "numpy")


def add_arguments(parser):
    """This subcommand has no options."""


def run(args) -> int:
    """Print it all."""
    print("versions")
    _line("jitmat", __version__)
    _line("python", f"{platform.python_version()} on {platform.platform()}")
    for package in PACKAGES:
        _line(package, _version(package))
    print("devices")
    for device in jax.devices():
        _line(f"{device.platform}:{device.id}", device.device_kind)
    print("backends (* is what backend=None means)")
    for where in ("cpu", "cuda"):
        default = jitsmv_p.get_default(where)
        names = (f"{name}*" if name == default else name for name in jitsmv_p.available_backends(where))
        _line(where, ", ".join(names))
    _line("elsewhere", "jax*")
    print("state")
    _line("jax", "ready, on any platform")
    _line("numba", _cpu.problem() or "ready")
    _line("cuda_raw", _cuda_problem() or "ready")
    return 0


def _line(name, value):
    print(f"  {name:<10} {value}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"missing; pip install {package}"


def _cuda_problem() -> str | None:
    """None when the CUDA kernels can run here, else a sentence that says why they cannot."""
    ready, sentence = _cuda.available()
    if ready or "pip install" in sentence:
        return None if ready else sentence
    return f"{sentence}; with an NVIDIA GPU: pip install 'jitmat[cuda13]'"

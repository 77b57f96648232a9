"""Settings of this process, read when a product is traced.

`deterministic` (bool): whether float products that scatter on a GPU add in a fixed order, so that they are equal
to the bit from run to run, rather than in the faster order in which atomic additions happen to arrive. Everything
else is deterministic always. Its default is read once from `--xla_gpu_deterministic_ops` in `XLA_FLAGS`.
"""

import os

__all__ = ["deterministic"]


def _from_xla_flags() -> bool:
    wanted = False
    for flag in os.environ.get("XLA_FLAGS", "").split():
        name, _, value = flag.partition("=")
        if name == "--xla_gpu_deterministic_ops":
            wanted = value.lower() in ("", "true", "1")
    return wanted


deterministic: bool = _from_xla_flags()

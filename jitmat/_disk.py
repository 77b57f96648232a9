"""Compiled code on disk, between processes: content-addressed files, written whole or not at all, without locks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

_CHECK = hashlib.sha256().digest_size


@functools.cache
def _folder(kind: str) -> Path | None:
    """Where code of a kind is kept, `JITMAT_CACHE_DIR` or the user's cache; None where nothing can be kept."""
    root = os.environ.get("JITMAT_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "jitmat"
    )
    path = Path(root) / kind
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path


def read(kind: str, name: str) -> bytes | None:
    """The content of that name; None when it is not there or not whole."""
    folder = _folder(kind)
    try:
        stored = (folder / name).read_bytes() if folder else b""
    except OSError:
        return None
    check, content = stored[:_CHECK], stored[_CHECK:]
    return content if content and hashlib.sha256(content).digest() == check else None


def write(kind: str, name: str, content: bytes):
    """Keep a content under a name, if this can be done."""
    folder = _folder(kind)
    if folder is None:
        return
    with contextlib.suppress(OSError):  # a full or read-only disk costs the next process time, nothing else
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=name + ".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, folder / name)
        except OSError:
            os.unlink(temporary)
            raise

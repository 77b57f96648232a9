"""Does the installed jaxlib's XLA FFI look as the handlers assume? Read from its own header, without numba."""

import functools
import os
import re

import jaxlib

# Byte offsets in the call frame and what hangs off it.
EXTENSION, API, CONTEXT, ARGS, RETS, ATTRS = 8, 16, 24, 72, 112, 160
BUFFER_DATA, BUFFER_DIMS, ARRAY_DATA = 24, 40, 16
ERROR_CREATE, STREAM_GET, SCHEDULE, NUM_THREADS = 48, 48 + 8 * 4, 48 + 8 * 11, 48 + 8 * 12

_LAYOUT = {
    "XLA_FFI_CallFrame": "struct_size extension_start api ctx stage args rets attrs future",
    "XLA_FFI_Args": "struct_size extension_start size types args",
    "XLA_FFI_Rets": "struct_size extension_start size types rets",
    "XLA_FFI_Attrs": "struct_size extension_start size types names attrs",
    "XLA_FFI_Buffer": "struct_size extension_start dtype data rank dims",
    "XLA_FFI_Array": "dtype size data",
}

_TABLE = {
    ERROR_CREATE: "XLA_FFI_Error_Create",
    STREAM_GET: "XLA_FFI_Stream_Get",
    SCHEDULE: "XLA_FFI_ThreadPool_Schedule",
    NUM_THREADS: "XLA_FFI_ThreadPool_NumThreads",
}


@functools.cache
def _header():
    path = os.path.join(os.path.dirname(jaxlib.__file__), "include", "xla", "ffi", "api", "c_api.h")
    with open(path, encoding="utf-8") as file:
        return re.sub(r"//[^\n]*", "", file.read())


def version():
    """(major, minor) of the FFI."""
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", _header()) for part in ("MAJOR", "MINOR")]
    if not all(found):
        raise ValueError("its header names no version")
    return tuple(int(match.group(1)) for match in found if match)


def layout_problem():
    """None when the FFI is laid out as assumed here, else a sentence that says what differs."""
    name = f"jaxlib {jaxlib.__version__}"
    try:
        header = _header()
        major, _ = version()
    except (OSError, ValueError) as error:
        return f"{name}'s XLA FFI cannot be read: {error}"
    if major != 0:
        return f"{name} has XLA FFI version {major}, not 0"
    for struct, fields in _LAYOUT.items():
        body = re.search(rf"struct {struct} {{([^}}]*)}}", header)
        if body is None or re.findall(r"(\w+);", body.group(1)) != fields.split():
            return f"{name} lays out {struct} in another way"
    functions = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", header)
    if [functions[(at - 48) // 8] for at in _TABLE] != list(_TABLE.values()):
        return f"{name} has another table of FFI functions"
    return None

"""The CUDA code's walk, compiled for the host, has the known answers; and NVRTC compiles every kernel."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from jitmat import _cuda_driver
from jitmat._thresholds import bernoulli_table

GOLDEN = json.loads((Path(__file__).parent / "golden" / "walk.json").read_text())

HOST = """
#include "walk.cuh"
template <int b> void walk(const u32* table, u64 seed, u32 stream, u32 block, u32* out) {
  const Bernoulli<b, true> w(table, mix64(seed), stream, block);
  const auto inverse = w.inverse();
  u32 n = 0, held = 0;
  for (int i = 0; i < 6; i++) out[n++] = w.a[i];
  for (int i = 0; i < 6; i++) out[n++] = w.c[i];
  for (u32 j = 0; j < w.size; j++) held += inverse.holds(j);
  out[n++] = held;
  out[n++] = Bernoulli<b, false>(table, mix64(seed), stream, block).total();
  out[n++] = w.count;
  w.template visit<1>(0, [&](auto spot) { out[n++] = spot.index(); });
}
extern "C" void walk_block(int b, const u32* table, u64 seed, u32 stream, u32 block, u32* out) {
  switch (b) {
    case 9: return walk<9>(table, seed, stream, block, out);
    case 10: return walk<10>(table, seed, stream, block, out);
    case 11: return walk<11>(table, seed, stream, block, out);
    case 12: return walk<12>(table, seed, stream, block, out);
    case 13: return walk<13>(table, seed, stream, block, out);
    case 14: return walk<14>(table, seed, stream, block, out);
  }
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("walk")
    (folder / "walk.cc").write_text(HOST)
    library = folder / "walk.so"
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas", "-I", _cuda_driver.folder(),
         "-o", library, folder / "walk.cc"], check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(library)).walk_block


def draw(host, bits, prob, seed, stream, block):
    table = np.ascontiguousarray(bernoulli_table(bits, prob))
    out = np.zeros(15 + (1 << bits), np.uint32)
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    host(bits, pointer(table), ctypes.c_uint64(seed), ctypes.c_uint32(stream), ctypes.c_uint32(block), pointer(out))
    return out


@pytest.mark.parametrize(
    "case", GOLDEN["blocks"], ids=lambda c: f"{c['seed']}-{c['stream']}-{c['block']}-{c['bits']}-{c['prob']}"
)
def test_a_block_on_the_host_is_the_golden_block(host, case):
    out = draw(host, case["bits"], case["prob"], int(case["seed"]), case["stream"], case["block"])
    words, (held, off_diagonal, count) = np.array(case["words"], np.uint64), out[12:15]
    np.testing.assert_array_equal(out[:6], words >> 16 | 1)
    mask = 0xFFFF << (16 - case["bits"]) & 0xFFFF
    np.testing.assert_array_equal(out[6:12], (words & mask) << 16)
    positions = out[15 : 15 + count]
    assert count == case["count"]
    assert positions.tolist()[:24] == case["first"]
    assert positions.sum(dtype=np.uint64) == case["sum"]
    assert len(set(positions.tolist())) == count == held
    offset = case["stream"] - (case["block"] << case["bits"])
    assert off_diagonal == count - (offset in positions.tolist())


KERNELS = {
    "gather": [
        ("X=float", "Y=float", "LANES=1", "THREADS=512", "MINBLOCKS=2", "TILE=true", "EVENTS=0"),
        ("X=u8", "Y=u32", "LANES=32", "THREADS=512", "MINBLOCKS=2", "TILE=true", "EVENTS=1024"),
        ("X=double", "Y=double", "LANES=4", "THREADS=512", "MINBLOCKS=2", "TILE=false", "EVENTS=0"),
    ],
    "scatter": [
        ("X=u8", "Y=u32", "LANES=1", "THREADS=512", "MINBLOCKS=2", "TILE=true", "COUNTS=1"),
        ("X=double", "Y=double", "LANES=4", "THREADS=512", "MINBLOCKS=2", "TILE=false", "COUNTS=0"),
    ],
    "small": [("X=float", "Y=float", "COUNTS=0", "POSITIONS=8", "THREADS=256")],
    "fixed": [("THREADS=512", "MINBLOCKS=2")],
    "ordered": [("X=double", "Y=double", "THREADS=512", "TILE=true")],
    "columns": [("X=float", "Y=float", "THREADS=256", "ACROSS=32", "WIDE=2")],
    "materialize": [("THREADS=256",)],
    "vectors": [("X=float", "Y=float")],
    "tensor": [
        (
            f"COUNTS={counts}",
            f"GATHER={gather}",
            "MS=256",
            "TILES=8",
            "MW=8",
            "NW=2",
            "KW=1",
            "DRAW=8",
            "ORDERED=false",
            "WIDTH=4096",
        )
        for counts in (0, 1)
        for gather in (0, 1)
    ],
}


def test_every_source_file_is_compiled_here():
    assert {path.stem for path in _cuda_driver.folder().glob("*.cu")} == set(KERNELS)


@pytest.mark.parametrize("capability", [75, 90])
@pytest.mark.parametrize("name", KERNELS)
def test_nvrtc_compiles(name, capability):
    try:
        _cuda_driver.nvrtc()
    except OSError as error:
        pytest.skip(str(error))
    if name == "tensor" and capability < 80:
        pytest.skip("int8 and bfloat16 fragments of these shapes begin with compute capability 8.0")
    for defines in KERNELS[name]:
        target = _cuda_driver.target(capability)
        assert target == f"sm_{capability}"
        assert _cuda_driver.compile_source(name, ("BITS=12", "DIAGONAL=false", *defines), target).startswith(
            b"\x7fELF"
        )

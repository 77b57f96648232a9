"""The CUDA code's walk, compiled for the host, has the known answers; and NVRTC compiles every kernel."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_renewal

from jitmat import _cuda_driver
from jitmat._renewal import Renewal
from jitmat._thresholds import bernoulli_table

GOLDEN = json.loads((Path(__file__).parent / "golden" / "walk.json").read_text())

HOST = """
#include "bernoulli.cuh"
#include "renewal.cuh"
template <int b> void walk(const u32* table, u64 seed, u32 stream, u32 block, u32* out) {
  typedef Bernoulli<b, true> Walk;
  seed = Walk::start(seed >> 32, seed);
  const Walk w(table, seed, stream, block);
  const auto inverse = w.inverse();
  u32 n = 0, held = 0;
  for (int i = 0; i < 6; i++) out[n++] = w.a[i];
  for (int i = 0; i < 6; i++) out[n++] = w.c[i];
  for (u32 j = 0; j < w.size; j++) held += inverse.holds(j);
  out[n++] = held;
  out[n++] = Bernoulli<b, false>(table, seed, stream, block).total();
  out[n++] = w.count;
  w.template visit<1>(0, [&](auto spot) { out[n++] = spot.index(); });
}
template <class Walk> u32 mark(const Walk& walk, u8* marks) {
  for (u32 lane = 0; lane < 32; lane++) {
    walk.template visit<32>(lane, [&](auto spot) { marks[spot.index()] |= 1; });
    auto cursor = walk.template cursor<32>(lane);
    for (typename Walk::Spot spot; cursor.next(spot);) marks[spot.index()] |= 2;
  }
  return walk.total();
}
extern "C" u32 bernoulli_marks(const u32* table, u64 seed, u32 stream, u32 block, u8* marks) {
  typedef Bernoulli<10, false> Walk;
  return mark(Walk(table, Walk::start(seed >> 32, seed), stream, block), marks);
}
extern "C" u32 renewal_marks(const u32* table, u64 seed, u32 stream, u32 block, u8* marks) {
  typedef Renewal<true> Walk;
  return mark(Walk(table, Walk::start(seed >> 32, seed), stream, block), marks);
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
    return ctypes.CDLL(str(library))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def draw(host, bits, prob, seed, stream, block):
    table = np.ascontiguousarray(bernoulli_table(bits, prob))
    out = np.zeros(15 + (1 << bits), np.uint32)
    host.walk_block(
        bits, pointer(table), ctypes.c_uint64(seed), ctypes.c_uint32(stream), ctypes.c_uint32(block), pointer(out)
    )
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


def test_a_cursor_gives_what_a_visit_gives(host):
    table = np.ascontiguousarray(bernoulli_table(10, 0.3))
    for stream in range(70):
        marks = np.zeros(1024, np.uint8)
        total = host.bernoulli_marks(pointer(table), ctypes.c_uint64(5), stream, 0, pointer(marks))
        assert (marks == 3 * (marks > 0)).all()
        assert marks[stream] == 0  # the diagonal is left out
        assert (marks > 0).sum() == total


@pytest.mark.parametrize("case", test_renewal.CASES)
def test_the_renewal_walk_on_the_host_is_the_golden_one(host, case):
    bits, arguments = test_renewal.golden(case)
    rows = bits if arguments["corder"] else bits.T
    table = Renewal.table(arguments["prob"], rows.shape[1])
    seed = ctypes.c_uint64(arguments["seed"] % 2**64)
    for stream, row in enumerate(rows):
        marks = np.zeros((4, Renewal.block_length(len(row))), np.uint8)
        totals = [host.renewal_marks(pointer(table), seed, stream, chunk, pointer(marks[chunk])) for chunk in range(4)]
        np.testing.assert_array_equal(marks.sum(axis=1), 3 * np.array(totals))
        np.testing.assert_array_equal(marks.reshape(-1)[: len(row)], 3 * row)


KERNELS = {
    "gather": [
        ("X=float", "Y=float", "LANES=1", "THREADS=512", "MINBLOCKS=2", "TILE=true", "EVENTS=0", "PACKED=0"),
        ("X=u8", "Y=u32", "LANES=32", "THREADS=512", "MINBLOCKS=2", "TILE=true", "EVENTS=1024", "PACKED=0"),
        ("X=double", "Y=double", "LANES=4", "THREADS=512", "MINBLOCKS=2", "TILE=false", "EVENTS=0", "PACKED=0"),
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
    target = _cuda_driver.target(capability)
    assert target == f"sm_{capability}"
    walks = [("BITS=12", "DIAGONAL=false"), ("RENEWAL=1", "DIAGONAL=false")]
    walks = {"vectors": [()], "small": walks[:1], "tensor": walks[:1]}.get(name, walks)  # no walk, random access
    for walk in walks:
        for defines in KERNELS[name]:
            if "RENEWAL=1" in walk:
                replaced = {"EVENTS=1024": "EVENTS=0", "PACKED=0": f"PACKED={int('X=u8' in defines)}"}
                defines = [replaced.get(each, each) for each in defines]
            code = _cuda_driver.compile_source(_cuda_driver.source_file(name, (*walk, *defines)), target)
            assert code.startswith(b"\x7fELF")

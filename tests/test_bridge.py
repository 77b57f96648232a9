"""The way from XLA to the kernels: many threads, many calls in one program, and what happens where it is closed."""

import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
import reference
from cases import on_cpu
from jitmat.kernels import frontend, layout

from jitmat import JITScalarMatrix, _cpu, _disk

SIZE, PROB = 2000, 0.1  # enough work for several threads of XLA's pool
SEEDS = range(16)


@pytest.fixture(scope="module")
def expected():
    """Matrices, an operand, and P @ x of each, in both orientations."""
    x = np.random.default_rng(0).integers(-3, 4, SIZE).astype(np.float32)
    Ws = [JITScalarMatrix(1.0, PROB, seed, shape=(SIZE, SIZE), corder=bool(seed % 2)) for seed in SEEDS]
    products = [reference.pattern((SIZE, SIZE), PROB, s, bool(s % 2)).astype(np.float32) @ x for s in SEEDS]
    return Ws, x, products


def test_sixteen_threads_may_call_at_once(expected):
    Ws, x, products = expected
    barrier, wrong = threading.Barrier(16), []

    def call(W, product):
        barrier.wait()
        for _ in range(20):
            if not (np.asarray(W @ x) == product).all():
                wrong.append(W)

    threads = [threading.Thread(target=call, args=pair, daemon=True) for pair in zip(Ws, products, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a call never returned"
    assert not wrong


def test_one_program_may_hold_sixteen_calls(expected):
    Ws, x, products = expected
    program = jax.jit(lambda x: [W @ x for W in Ws])
    for _ in range(10):
        np.testing.assert_array_equal(program(x), products)


def test_threads_may_run_programs_of_sixteen_calls(expected):
    Ws, x, products = expected
    program, wrong = jax.jit(lambda x: [W @ x for W in Ws]), []

    def call():
        for _ in range(3):
            if not (np.asarray(program(x)) == np.asarray(products)).all():
                wrong.append(None)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a program never returned"
    assert not wrong


def test_a_loop_of_calls_is_right(expected):
    Ws, x, products = expected
    last, trace = jax.lax.scan(lambda c, _: (c, Ws[0] @ c), x, None, length=50)
    assert (np.asarray(trace) == products[0]).all()
    np.testing.assert_array_equal(last, x)


@on_cpu
def test_the_call_is_a_custom_call_without_python(expected):
    Ws, x, _ = expected
    text = jax.jit(lambda x: Ws[0] @ x).lower(x).as_text()
    assert "jitmat_bernoulli" in text
    assert "python" not in text


FALLBACK = """
import sys, warnings
{break_it}
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import jax.numpy as jnp, numpy as np
    from jitmat import JITScalarMatrix
    W = JITScalarMatrix(0.5, 0.3, 7, shape=(30, 20))
    sums = [float((W @ jnp.arange(20.)).sum()), float((jnp.ones(30, bool) @ W).sum()), W.nnz, float(W.todense().sum())]
ours = [w for w in caught if "jitmat" in str(w.message)]
print(sums, len(ours), [w.category.__name__ for w in ours])
print(ours[0].message if ours else "")
"""

NO_NUMBA = """
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Blocker())
"""
OTHER_VERSION = """
import jitmat.kernels.layout as layout
layout._header = lambda: "#define XLA_FFI_API_MAJOR 1\\n#define XLA_FFI_API_MINOR 0\\n"
"""


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [(NO_NUMBA, "pip install numba"), (OTHER_VERSION, "FFI version 1, not 0")],
    ids=["without numba", "another FFI version"],
)
def test_without_the_bridge_plain_jax_stands_in_and_says_so_once(break_it, reason):
    P = reference.pattern((30, 20), 0.3, 7)
    run = subprocess.run(
        [sys.executable, "-c", FALLBACK.replace("{break_it}", break_it)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    result, message = run.stdout.splitlines()
    sums = [0.5 * (P @ np.arange(20.0)).sum(), 0.5 * P.sum(), int(P.sum()), 0.5 * P.sum()]
    assert result == f"{sums!r}".replace("np.float64(", "").replace(")", "") + " 1 ['RuntimeWarning']"
    assert reason in message


def test_the_installed_layout_is_the_one_assumed():
    assert layout.layout_problem() is None
    assert _cpu.problem() is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("#define XLA_FFI_API_MAJOR 0", "#define XLA_FFI_API_MAJOR 1", "version 1"),
        ("XLA_FFI_ThreadPool_Schedule);", "XLA_FFI_Something_Else);", "table"),
        ("struct XLA_FFI_CallFrame {", "struct XLA_FFI_CallFrame { size_t surprise;", "XLA_FFI_CallFrame"),
        ("struct XLA_FFI_Buffer {", "struct XLA_FFI_Buffer { int surprise;", "XLA_FFI_Buffer"),
        ("struct XLA_FFI_Array {", "struct XLA_FFI_Other {", "XLA_FFI_Array"),
        ("#define XLA_FFI_API_MINOR", "#define NO_MINOR", "no version"),
    ],
)
def test_a_changed_header_is_noticed(monkeypatch, old, new, said):
    header = layout._header()
    assert old in header
    monkeypatch.setattr(layout, "_header", lambda: header.replace(old, new))
    assert said in layout.layout_problem()


def test_a_missing_header_is_noticed(monkeypatch):
    def gone():
        raise FileNotFoundError("c_api.h")

    monkeypatch.setattr(layout, "_header", gone)
    assert "cannot be read" in layout.layout_problem()


COUNT = """
import numpy as np
from jitmat import JITScalarMatrix
print(int((JITScalarMatrix(1, 0.3, 7, shape=(30, 20)) @ np.ones(20, bool)).sum()))
"""


def test_numba_gives_its_front_end_alone():
    assert frontend.usable()


ANOTHER_NUMBA = """
from jitmat.kernels import frontend
def changed(self, library):
    raise AttributeError("another numba")
frontend._Code.add_linking_library = changed
"""


def test_another_numba_may_compile_in_its_own_way(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", ANOTHER_NUMBA + COUNT + "print(frontend.usable())"],
        env={"JITMAT_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(reference.pattern((30, 20), 0.3, 7).sum()), "False"]


def test_a_home_that_cannot_be_written_is_no_hindrance():
    environment = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == reference.pattern((30, 20), 0.3, 7).sum()


def test_a_spoiled_file_of_the_cache_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_disk, "_folder", lambda kind: tmp_path)
    assert _disk.read("numba", "name") is None
    _disk.write("numba", "name", b"code")
    assert _disk.read("numba", "name") == b"code"
    whole = (tmp_path / "name").read_bytes()
    for left in (b"", b"nothing like it", whole[:-1], whole + b"x", whole[1:]):
        (tmp_path / "name").write_bytes(left)
        assert _disk.read("numba", "name") is None
    _disk.write("numba", "name", b"new")
    assert _disk.read("numba", "name") == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["name"]  # no temporary file is left


@pytest.mark.slow
def test_a_spoiled_cache_is_made_anew(tmp_path):
    environment = {"JITMAT_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    for left in (b"", b"\x7fELF but short"):
        run = subprocess.run(
            [sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert int(run.stdout) == reference.pattern((30, 20), 0.3, 7).sum()
        stored = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert stored
        for path in stored:
            path.write_bytes(left)

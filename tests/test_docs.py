"""What is written down runs: examples of README and docs print what the page says, and so do the docstrings'."""

import contextlib
import doctest
import importlib
import io
import pathlib
import pkgutil
import re

import jax
import pytest

import jitmat

ROOT = pathlib.Path(__file__).parent.parent
MODULES = [
    f"jitmat.{module.name}"
    for module in pkgutil.iter_modules(jitmat.__path__)
    if module.name not in ("__main__", "kernels", "cuda")
]


BLOCK = re.compile(r"^(<!-- not run: .+ -->\n)?```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
PAGES = {
    str(path.relative_to(ROOT)): blocks
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if (blocks := BLOCK.findall(path.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page):
    pytest.importorskip("matplotlib")
    page_names = {}
    for not_run, example, output in PAGES[page]:
        if not_run:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, page, "exec"), page_names)
        assert printed.getvalue() == output


def test_the_pages_with_examples_are_found():
    assert {"README.md", "docs/index.md", "docs/first.md", "docs/scipy.md"} <= PAGES.keys()


def test_the_page_on_own_kernels_shows_the_code_of_its_example():
    page = (ROOT / "docs" / "own_kernel.md").read_text(encoding="utf-8")
    code = (ROOT / "docs" / "examples" / "own_kernel.py").read_text(encoding="utf-8")
    code = {re.sub(r"\s+# .*", "", line) for line in code.splitlines()}
    shown = [line for block in re.findall(r"```python\n(.*?)```", page, re.S) for line in block.splitlines() if line]
    assert not [line for line in shown if line not in code]


def test_the_page_on_brainevent_points_to_tests_that_exist():
    page = (ROOT / "docs" / "brainevent.md").read_text(encoding="utf-8")
    claims = page[page.index("| claim |") :].splitlines()[2:]
    pointers = [row.rsplit("|", 2)[1] for row in claims]
    found = [re.findall(r"`(test_\w+\.py)`(?:: ((?:`test_\w+`(?:, )?)+))?", pointer) for pointer in pointers]
    assert sum(map(len, found)) >= 20
    for file, names in (pair for pairs in found for pair in pairs):
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not [name for name in re.findall(r"`(test_\w+)`", names) if f"def {name}(" not in text]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_are_right(name):
    if name == "jitmat._own_kernels" and jax.default_backend() != "cpu":
        pytest.skip("its example runs a numba kernel")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_every_public_name_has_a_docstring_with_an_example():
    documented = [name for name in dir(jitmat) if not name.startswith("_") and callable(getattr(jitmat, name))]
    without = [name for name in documented if ">>>" not in (getattr(jitmat, name).__doc__ or "")]
    assert not without

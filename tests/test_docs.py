"""What is written down runs: the README's example prints what it says, and so do the docstrings' examples."""

import contextlib
import doctest
import importlib
import io
import pathlib
import pkgutil
import re

import pytest

import jitmat

ROOT = pathlib.Path(__file__).parent.parent
MODULES = [
    f"jitmat.{module.name}"
    for module in pkgutil.iter_modules(jitmat.__path__)
    if module.name not in ("__main__", "kernels", "cuda")
]


def test_the_readme_example_prints_what_it_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example, output = re.search(r"<!-- example -->\n```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue() == output


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
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_every_public_name_has_a_docstring_with_an_example():
    documented = [name for name in dir(jitmat) if not name.startswith("_") and callable(getattr(jitmat, name))]
    without = [name for name in documented if ">>>" not in (getattr(jitmat, name).__doc__ or "")]
    assert not without

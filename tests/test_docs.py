"""What is written down runs: examples of README and docs print what the page says, and so do the docstrings'."""

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


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_are_right(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_every_public_name_has_a_docstring_with_an_example():
    documented = [name for name in dir(jitmat) if not name.startswith("_") and callable(getattr(jitmat, name))]
    without = [name for name in documented if ">>>" not in (getattr(jitmat, name).__doc__ or "")]
    assert not without

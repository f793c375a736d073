"""Invariants checked: every example in the docstrings and in README.md runs and prints what it says, and the stub has the
docstrings of the module.
"""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gowk
from gowk import _errors, _gowk, _info, _metadata

HERE = Path(__file__).parent.parent


@pytest.mark.parametrize("module", [gowk, _gowk, _errors, _info, _metadata], ids=lambda module: module.__name__)
def test_examples_run(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = doctest.DocTestFinder().find(module, module.__name__, module=False, globs={})
    tests = [test for test in tests if test.examples]
    if module is _gowk:
        names = {test.name.removeprefix("gowk._gowk.") for test in tests}
        assert {"Reader", "Writer", "Writer.update", "Reader.contains_many", "Job", "Store", "Store.before"} <= names
    for number, test in enumerate(tests):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert doctest.DocTestRunner().run(test).failed == 0, test.name


def test_everything_is_documented() -> None:
    for name in gowk.__all__:
        thing = getattr(gowk, name)
        if inspect.isclass(thing):
            assert inspect.getdoc(thing), name
            for method, value in vars(thing).items():
                if not method.startswith("_") and callable(value):
                    assert inspect.getdoc(value), f"{name}.{method}"


def test_the_stub_has_the_docstrings_of_the_module() -> None:
    subprocess.run([sys.executable, str(HERE / "tests" / "docstrings.py"), "--check"], check=True)


def test_the_examples_of_the_readme_run(tmp_path: Path) -> None:
    blocks = (HERE / "README.md").read_text().split("```python\n")[1:]
    assert blocks
    for block in blocks:
        code = block.split("```")[0]
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

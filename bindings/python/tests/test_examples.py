"""Invariants checked: every example runs, and its own assertions hold. Those for Spark are run by ``ci-spark``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
EXAMPLES = [path for path in EXAMPLES if not path.stem.startswith("spark_")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs(example: Path, folder: Path) -> None:
    done = subprocess.run([sys.executable, example, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout

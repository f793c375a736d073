"""Invariants checked: the tests of pybloomfiltermmap3 and of pybloom_live pass, through ``adapter.py``, but for those named
here with the reason. Both are fetched from the package index and run as they are.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent

MMAP3 = {
    "fingerprints of what both have cannot be told apart: there is no intersection": [
        "test_read_only_set_operations_is_value_error",
    ],
    "the bits of a Bloom filter, and seeds for each of its hashes": [
        "test_bit_array",
        "test_bit_array_same_hashes",
        "test_bit_count",
        "test_create_with_hash_seeds",
        "test_create_with_hash_seeds_and_compare",
        "test_create_with_hash_seeds_invalid",
        "test_approximate_size_after_union_called",
    ],
    "the file as base64 text": ["test_to_from_base64", "test_to_base64_does_not_segfault"],
    "a reader is pickled by its path, not with the file": ["test_pickle"],
    "clearing an open filter": ["test_read_only_write_is_value_error"],
}
LIVE = {
    "fingerprints of what both have cannot be told apart: there is no intersection": [
        "test_intersection",
        "test_intersection_capacity_fail",
        "test_intersection_k_fail",
    ],
    "functions of the hashes": ["test_make_hashfuncs_returns_hashfn"],
}


def fetched(name: str) -> Path:
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", name]
    subprocess.run(fetch, check=True)
    with tarfile.open(next(Path().glob("*.tar.gz"))) as archive:
        archive.extractall(filter="data")
    return next(path for path in Path().iterdir() if path.is_dir())


def outcomes(file: Path, folder: Path, prelude: str) -> dict[str, str]:
    """How each test of a file ends, with modules put in the place of those that it imports."""
    code = f"import sys\nsys.path[:0] = [{str(HERE)!r}, '.']\nimport adapter\n{prelude}\n"
    code += f"import pytest; sys.exit(pytest.main(['-q', '-rA', '-p', 'no:cacheprovider', {str(file)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    found = {line[1].split("::")[-1]: line[0] for line in lines}
    passed = [name for name, outcome in found.items() if outcome == "PASSED"]
    print(f"{file.name}: {len(passed)} of {len(found)} pass")
    assert found, done.stdout + done.stderr
    return found


def check(found: dict[str, str], otherwise: dict[str, list[str]]) -> None:
    failed = {name for name, outcome in found.items() if outcome != "PASSED"}
    known = {name for names in otherwise.values() for name in names}
    assert failed == known, f"not known: {failed - known}, passed: {known - failed}"


@pytest.mark.registry
def test_pybloomfiltermmap3s_own_tests(folder: Path) -> None:
    root = fetched("pybloomfiltermmap3")
    found = outcomes(Path("tests/simpletest.py"), root, "sys.modules['pybloomfilter'] = adapter")
    check(found, MMAP3)


@pytest.mark.registry
def test_pybloom_lives_own_tests(folder: Path) -> None:
    root = fetched("pybloom_live")
    # Its package, but for the module that is replaced.
    (root / "pybloom_live" / "__init__.py").write_text("")
    found = outcomes(
        Path("pybloom_live/test_pybloom.py"), root, "sys.modules['pybloom_live.pybloom'] = adapter"
    )
    check(found, LIVE)

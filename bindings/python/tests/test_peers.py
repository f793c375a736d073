"""Invariants checked: the tests of pybloomfiltermmap3 and pybloom_live pass through ``adapter.py``, and the tests of
rbloom through ``adapter_rbloom.py``, except the tests named here with a reason. All are fetched from the package index
and run unchanged. rbloom has one long test function: each of its statements counts as a test.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import adapter_rbloom
import pytest
from registry import sources

HERE = Path(__file__).parent

MMAP3 = {
    "the entries of two filters can be united, but not intersected": [
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
    "a number of hash functions, of which a cuckoo filter has one": ["test_repr", "test_copy", "test_copy_template"],
    "the file as base64 text": ["test_to_from_base64", "test_to_base64_does_not_segfault"],
    "a reader is pickled by its path, not with the file": ["test_pickle"],
    "clearing an open filter": ["test_read_only_write_is_value_error"],
}
LIVE = {
    "the entries of two filters can be united, but not intersected": [
        "test_intersection",
        "test_intersection_capacity_fail",
        "test_intersection_k_fail",
    ],
    "functions of the hashes": ["test_make_hashfuncs_returns_hashfn"],
}


RBLOOM = {
    "the entries of two filters can be united, but not intersected": [
        "assert bloom & other == bloom",
        "bloom &= other",
        "assert bloom == bloom.intersection(other)",
        "bloom.intersection_update(other)",
        "bloom &= bloom",
        "bloom.intersection_update(bloom)",
        "bloom.intersection_update(bloom, bloom)",
        "bloom.intersection_update(bloom, ['foo'], bloom)",
        "assert 'bob' not in bloom",
        "assert bloom.intersection(bloom) == bloom",
        "assert bloom.intersection(bloom, bloom) == bloom",
    ],
    "the size of a Bloom filter": [
        "assert repr(Bloom(27000, 0.0317)) == '<Bloom size_in_bits=193960 approx_items=0.0>'",
    ],
    "the hash is gowk's own, and the adapter a Python object": [
        "assert gc.get_referents(bloom) == [loop_hash_func]",
    ],
}


def outcomes(file: Path, folder: Path, prelude: str) -> dict[str, str]:
    """The outcome of each test of a file, with other modules in place of its imports."""
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
    root = sources("pybloomfiltermmap3")
    found = outcomes(Path("tests/simpletest.py"), root, "sys.modules['pybloomfilter'] = adapter")
    check(found, MMAP3)


@pytest.mark.registry
def test_pybloom_lives_own_tests(folder: Path) -> None:
    root = sources("pybloom_live")
    # Its package, without the module that is replaced.
    (root / "pybloom_live" / "__init__.py").write_text("")
    found = outcomes(
        Path("pybloom_live/test_pybloom.py"), root, "sys.modules['pybloom_live.pybloom'] = adapter"
    )
    check(found, LIVE)


class EachStatement(ast.NodeTransformer):
    """Changes a module's functions so that each statement is counted, and its exception kept."""

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Assert | ast.Delete):
            return node
        text = ast.unparse(node)
        count = ast.parse(f"_ran[{text!r}] = None")
        failed = ast.parse(f"_failed[{text!r}] = None")
        handler = ast.ExceptHandler(type=ast.Name("Exception", ast.Load()), name=None, body=failed.body)
        return [*count.body, ast.Try(body=[node], handlers=[handler], orelse=[], finalbody=[])]


def statements(file: Path) -> tuple[list[str], list[str]]:
    """The different statements of the functions in a file, and which of them failed, when its main function is run."""
    tree = ast.parse(file.read_text())
    for part in tree.body:
        if isinstance(part, ast.FunctionDef):
            part.body = [EachStatement().visit(statement) for statement in part.body]
            part.body = [each for one in part.body for each in (one if isinstance(one, list) else [one])]
    ran: dict[str, None] = {}
    failed: dict[str, None] = {}
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), {"__name__": "__main__", "_ran": ran, "_failed": failed})
    print(f"{file.name}: {len(ran) - len(failed)} of {len(ran)} statements pass")
    return list(ran), list(failed)


@pytest.mark.registry
def test_rblooms_own_tests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sources("rbloom")
    monkeypatch.setitem(sys.modules, "rbloom", adapter_rbloom)
    ran, failed = statements(root / "tests" / "api_test.py")
    known = [text for texts in RBLOOM.values() for text in texts]
    assert len(ran) > 80 and sorted(failed) == sorted(known), f"not known: {set(failed) - set(known)}, passed: {set(known) - set(failed)}"

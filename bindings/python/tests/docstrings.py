"""Puts the docstrings of the compiled module into its stub, where editors look for them.

``python tests/docstrings.py`` writes ``gowk/_gowk.pyi`` anew; ``--check`` fails if it would change. The docstrings are written
once, in ``src/``.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

from gowk import _gowk

STUB = Path(__file__).parent.parent / "gowk" / "_gowk.pyi"


def documented(stub: str) -> str:
    """The stub with the docstrings of the module."""
    lines = stub.splitlines()
    changes: list[tuple[int, int, list[str]]] = []

    def visit(body: list[ast.stmt], owner: object) -> None:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name == "__new__":
                continue
            thing = inspect.getattr_static(owner, node.name, None)
            # A static method has its docstring in the function that it wraps.
            thing = getattr(thing, "__func__", thing)
            # Slots such as `__len__` have docstrings of Python's own.
            text = inspect.cleandoc(thing.__doc__ or "") if thing is not None else ""
            if isinstance(node, ast.ClassDef):
                visit(node.body, thing)
            if text and not node.name.startswith("_"):
                change(node, text)

    def change(node: ast.ClassDef | ast.FunctionDef, text: str) -> None:
        indent = " " * (node.col_offset + 4)
        quoted = f'r"""{text}' if "\\" in text else f'"""{text}'
        closed = quoted + ('\n"""' if "\n" in text else '"""')
        block = [(indent + line).rstrip() for line in closed.splitlines()]
        first, last = node.body[0], node.body[-1]
        had = ast.get_docstring(node) is not None
        if isinstance(node, ast.ClassDef):
            start = first.lineno - 1
            if not had and isinstance(first, ast.FunctionDef) and first.decorator_list:
                start = first.decorator_list[0].lineno - 1
            changes.append((start, first.end_lineno or start if had else start, block))
        elif had:
            changes.append((first.lineno - 1, last.end_lineno or 0, block))
        else:
            line = lines[last.lineno - 1]
            head = line[: last.col_offset].rstrip()
            changes.append((last.lineno - 1, last.lineno, [head, *block]))

    visit(ast.parse(stub).body, _gowk)
    for start, end, block in sorted(changes, reverse=True):
        lines[start:end] = block
    return "\n".join(lines) + "\n"


def main() -> int:
    stub = STUB.read_text()
    new = documented(stub)
    if "--check" in sys.argv[1:]:
        if new != stub:
            print(f"{STUB}: its docstrings are not those of the module; run python tests/docstrings.py", file=sys.stderr)
            return 1
        return 0
    STUB.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The package's sources and who imports whom, read without running anything."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import MNN

ROOT = Path(MNN.__file__).parent


@functools.cache
def modules() -> dict[str, Path]:
    """Files by dotted names."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("MNN", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports, those for type checking and those within functions too."""
    known = modules()
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        own = found[name] = set()
        for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                own |= {n if n in known else node.module for n in names}
            elif isinstance(node, ast.Import):
                own |= {alias.name for alias in node.names}
        own &= known.keys() - {name}
    return found


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, of every depth: what stands within expressions imports nothing."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        left += [n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.stmt, ast.excepthandler, ast.match_case))]


def cycles() -> list[set[str]]:
    """Sets of modules that import each other, directly or by others (Tarjan's strongly connected components)."""
    graph = imports()
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            start = stack.index(name)
            group = set(stack[start:])
            del stack[start:]
            if len(group) > 1:
                found.append(group)

    for name in graph:
        if name not in index:
            visit(name)
    return found

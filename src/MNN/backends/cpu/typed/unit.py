"""A module of LLVM IR from typed functions: one of them, and all that it calls."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from typing import Any

from MNN.backends.cpu.typed.statements import Function
from MNN.backends.cpu.typed.values import Signature, TranslationError, kind_of


def translated(function: Callable[..., Any], name: str = "kernel", inline: bool = False) -> str:
    """The text of a module that defines a typed function by this name, with those that it calls. ``inline``: marks
    these to become part of it, but for those that call themselves.

    Raises ``TranslationError`` where a function has something that is not part of the language."""
    unit = _Unit(inline)
    unit.name(function, name)
    return unit.text()


class _Unit:
    def __init__(self, inline: bool) -> None:
        self._inline = inline
        self._names: dict[Any, tuple[str, Signature]] = {}
        self._open: list[Any] = []

    def name(self, function: Any, wanted: str = "") -> tuple[str, Signature]:
        """What a function is called in this module, and its signature."""
        if function not in self._names:
            taken = {name for name, _ in self._names.values()}
            name = stem = wanted or function.__name__
            number = 1
            while name in taken:
                number += 1
                name = f"{stem}_{number}"
            self._names[function] = (name, _signature(function))
            self._open.append(function)
        return self._names[function]

    def text(self) -> str:
        parts: list[str] = []
        while self._open:
            function = self._open.pop(0)
            name, signature = self._names[function]
            try:
                writer = Function(_tree(function), signature, _known(function), self.name)
                text = writer.text(name, exported=not parts, body=getattr(function, "body", ""))
            except TranslationError as error:
                raise TranslationError(f"{function.__module__}.{function.__qualname__}: {error}") from None
            if self._inline and parts and f"@{name}(" not in text.partition("\n")[2]:
                text = text.replace(") {", ") alwaysinline {", 1)
            parts.append(text)
        return "\n".join(parts)


def _known(function: Callable[..., Any]) -> dict[str, Any]:
    """The names around a function: of its module, and of the function that it stands in."""
    found = inspect.getclosurevars(function)
    return {**function.__globals__, **found.nonlocals}


def is_readable(function: Callable[..., Any]) -> bool:
    """Whether the source of a function is there: programs can be shipped as bytecode alone."""
    return bool(_lines(function))


def _lines(function: Callable[..., Any]) -> list[str]:
    return linecache.getlines(function.__code__.co_filename, function.__globals__)


_FILES: dict[str, dict[int, ast.FunctionDef]] = {}
"""The functions of files by the line of their first decorator."""


def _tree(function: Callable[..., Any]) -> ast.FunctionDef:
    code = function.__code__
    if code.co_filename not in _FILES:
        nodes = ast.walk(ast.parse("".join(_lines(function))))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.decorator_list]
        _FILES[code.co_filename] = {f.decorator_list[0].lineno: f for f in functions}
    found = _FILES[code.co_filename].get(code.co_firstlineno)
    if found is None:
        raise TranslationError(f"{function.__qualname__}: its source is not there")
    return found


def _signature(function: Callable[..., Any]) -> Signature:
    tree, known = _tree(function), _known(function)
    kinds = [kind_of(a.annotation, known)[0] for a in tree.args.args if a.annotation is not None]
    if len(kinds) != len(tree.args.args) or tree.returns is None:
        raise TranslationError(f"{function.__qualname__}: every parameter and the result has a type")
    return Signature(tuple(kinds), kind_of(tree.returns, known)[0])


__all__ = ["is_readable", "translated"]

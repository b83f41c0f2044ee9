"""The table from ONNX operators to handlers, filled by the files of this folder.

>>> from MNN.frontends.onnx.registry import onnx_op
>>> @onnx_op("Relu")                                              # doctest: +SKIP
... def relu(ctx: Context, node: OnnxNode) -> Value:
...     return ctx.op("ReLU", node.input(0))

A handler returns the values of the node's outputs in order (one value, or a list). They take the ONNX names by
themselves. Several entries of one operator differ in ``since``: the newest that is not newer than the model's opset is
called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from MNN.discovery import import_modules
from MNN.errors import FormatError
from MNN.frontends.onnx.operands import Operands, tell
from MNN.ir.graph import Value
from MNN.ops.custom import Registration, registered_operator

if TYPE_CHECKING:
    from MNN.frontends.onnx.context import Context
    from MNN.frontends.onnx.node import OnnxNode

Handler = Callable[["Context", "OnnxNode"], "Value | Sequence[Value]"]
F = TypeVar("F", bound=Handler)

_ONNX_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Entry:
    """One handler: valid from opset ``since`` of its domain on, until a newer entry of the same operator."""

    op: str
    domain: str
    since: int
    handler: Handler


_entries: dict[tuple[str, str], list[Entry]] = {}
_loaded = False
_lock = threading.RLock()


def canonical_domain(domain: str) -> str:
    """The default domain has two spellings."""
    return "" if domain in _ONNX_DOMAINS else domain


def onnx_op(*ops: str, since: int = 1, domain: str = "", operands: Operands | None = None) -> Callable[[F], F]:
    """Decorator that enters a handler for one or more ONNX operators.

    ``operands``: what ONNX says of theirs, where the operators behind would be more generous. It holds for all entries
    of an operator (of ONNX's own domain) and is told with one of them.
    """

    def add(handler: F) -> F:
        for op in ops:
            add_entry(Entry(op, canonical_domain(domain), since, handler))
            if operands is not None:
                tell(op, operands)
        return handler

    return add


def add_entry(entry: Entry) -> None:
    """Enters a handler. Raises ``ValueError`` when operator, domain and opset are taken."""
    known = _entries.setdefault((entry.domain, entry.op), [])
    if any(e.since == entry.since for e in known):
        raise ValueError(f"ONNX operator {entry.domain or 'ai.onnx'}.{entry.op} since {entry.since} is entered twice")
    known.append(entry)
    known.sort(key=lambda e: e.since)


def find(op: str, domain: str, opset: int) -> Entry | None:
    """The handler for an operator at an opset, or None."""
    _load_all()
    registration = registered_operator(op, domain, opset)
    if registration is not None:
        return Entry(op, canonical_domain(domain), registration.since, partial(_custom, registration))
    fitting = [e for e in _entries.get((canonical_domain(domain), op), ()) if e.since <= max(opset, 1)]
    return fitting[-1] if fitting else None


def _custom(registration: Registration, ctx: Context, node: OnnxNode) -> Sequence[Value]:
    """A node of an operator that the user registered: its attributes are taken as they are declared."""
    attrs: dict[str, object] = {}
    for key, default in registration.attributes.items():
        if node.has(key):
            attrs[key] = node.any_attr(key)
        elif default is ...:
            raise FormatError(f"{node.where}: attribute '{key}' is missing")
    return ctx.emit(registration.op, node.inputs, len(node.outputs), **attrs)


def known_operators() -> list[tuple[str, str]]:
    """(domain, operator) of all entries, sorted."""
    _load_all()
    return sorted(_entries)


def _load_all() -> None:
    global _loaded
    with _lock:
        if not _loaded:
            for _ in import_modules(__package__):
                pass
            _loaded = True

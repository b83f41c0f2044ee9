"""The table from TensorFlow Lite's operators to handlers, filled by the files of ``operators/``.

>>> from MNN.frontends.tflite.registry import tflite_op
>>> @tflite_op("RELU")                                              # doctest: +SKIP
... def relu(ctx: Context, node: TfliteNode) -> Value:
...     return ctx.op("ReLU", ctx.real(node, 0))

A handler returns the values of the node's outputs in order (one value, or a list). They take the tensors' names by
themselves, and are quantised where the file says so, unless they are integers as the file stores them already, or the
handler works on those always (``stored``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from MNN.frontends.common.handlers import Handlers
from MNN.ir.graph import Value

if TYPE_CHECKING:
    from MNN.frontends.tflite.context import Context
    from MNN.frontends.tflite.node import TfliteNode

Handler = Callable[["Context", "TfliteNode"], "Value | Sequence[Value]"]


@dataclass(frozen=True)
class Entry:
    """``stored``: the handler's results are integers as the file has them where its tensors are quantised."""

    handler: Handler
    stored: bool


CUSTOM = "custom:"
"""What the names of custom operators begin with in the table."""
TABLE: Handlers[Entry] = Handlers("MNN.frontends.tflite.operators", "TensorFlow Lite")


def tflite_op(*ops: str, stored: bool = False) -> Callable[[Handler], Handler]:
    """Decorator that enters a handler for one or more operators, builtin ones by their names in the schema."""

    def add(handler: Handler) -> Handler:
        TABLE.handles(*ops)(Entry(handler, stored))
        return handler

    return add

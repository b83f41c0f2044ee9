"""The table from Keras's layers and operations to handlers, filled by the files of ``layers/``.

>>> from MNN.frontends.keras.registry import keras_layer
>>> @keras_layer("ReLU", masks=True)                               # doctest: +SKIP
... def relu(ctx: KerasContext, node: KerasNode) -> Value:
...     return ctx.op("ReLU", node.input(0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from MNN.frontends.common.handlers import Handlers
from MNN.ir.graph import Value

Config: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Any, Any], "Value | Sequence[Value]"]
"""Takes a ``KerasContext`` and a ``KerasNode``."""
Names = Callable[[Config], Sequence[str]]
Parts = Callable[[Config], Sequence[tuple[str, Config]]]


def no_names(config: Config) -> Sequence[str]:
    return ()


def no_parts(config: Config) -> Sequence[tuple[str, Config]]:
    return ()


@dataclass(frozen=True)
class LayerKind:
    """What is known of a class of layers.

    ``variables``: the names of its own variables, in the order that it makes them in. ``parts``: the layers inside,
    as Keras's attributes are called, with how they are configured. ``masks``: whether the mask of its input goes on
    to its output. ``is_model``: it calls layers that users know by name.
    """

    handler: Handler
    variables: Names = no_names
    parts: Parts = no_parts
    masks: bool = False
    is_model: bool = False


table: Handlers[LayerKind] = Handlers("MNN.frontends.keras.layers", "Keras")


def keras_layer(
    *names: str, variables: Names = no_names, parts: Parts = no_parts, masks: bool = False, is_model: bool = False
) -> Callable[[Handler], Handler]:
    """Decorator that enters a handler for classes of layers; see :class:`LayerKind`."""

    def enter(handler: Handler) -> Handler:
        table.handles(*names)(LayerKind(handler, variables, parts, masks, is_model))
        return handler

    return enter


def keras_op(*names: str) -> Callable[[Handler], Handler]:
    """The same for operations (``keras.ops``), which are kept apart from layers: some are called alike."""
    return keras_layer(*(f"ops.{name}" for name in names))

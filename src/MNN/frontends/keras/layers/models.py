"""Models: layers in a row, or a graph of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.part import Part, numbered
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape

ROW, CALLS = "Sequential", ("Functional", "Model")
MODELS = (ROW, *CALLS)
BATCH = "batch"
"""The name of the first axis of all inputs where it is open."""


@dataclass(frozen=True)
class Ref:
    """What the call ``node`` of a layer gives, of several results the one of ``index``."""

    layer: str
    node: int
    index: int


@dataclass(frozen=True)
class Call:
    """What a layer is called with; tensors are :class:`Ref`. ``of_old``: it is written as Keras 2 does."""

    args: list[Any]
    kwargs: dict[str, Any]
    of_old: bool


def run_model(ctx: KerasContext, model: Part) -> list[tuple[str, Value]]:
    """The results of the whole model by name, with inputs as its input layers say."""
    if model.kind == ROW:
        first = _row_input(model)
        name = model.inside[-1].name
        ctx.model.taken.add(name)
        return [(name, _run_row(ctx, model, [_add_input(ctx, *first)])[0])]
    outputs = _tree(model.config.get("output_layers"), None)
    named = sorted(outputs.items()) if isinstance(outputs, Mapping) else [("", outputs)]
    wanted = [
        (key if key and len(refs) == 1 else r.layer, r) for key, refs in ((k, _refs(t)) for k, t in named) for r in refs
    ]
    if not wanted:
        raise FormatError(f"{model.where}: it has no outputs")
    inputs = [part for part in model.inside if part.kind == "InputLayer"]
    names = _apart([name for name, _ in wanted], {part.name for part in inputs})
    ctx.model.taken.update(names)
    made = {part.name: _add_input(ctx, part.name, part.config) for part in inputs}
    order = [r.layer for r in _refs(_tree(model.config.get("input_layers"), None))]
    ctx.graph.inputs.sort(key=lambda v: order.index(v.name) if v.name in order else len(order))
    calls = _Calls(ctx, model, made)
    return list(zip(names, calls.of([r for _, r in wanted]), strict=True))


def _apart(names: Sequence[str], taken: set[str]) -> list[str]:
    """The second result that is called ``dense`` is ``dense_1``."""
    found: list[str] = []
    for name in names:
        other, count = name, 0
        while other in found or other in taken:
            count += 1
            other = f"{name}_{count}"
        found.append(other)
    return found


def _add_input(ctx: KerasContext, name: str, config: Config) -> Value:
    shape = config.get("batch_shape") or config.get("batch_input_shape")
    if shape is None and config.get("shape") is not None:
        shape = [None, *config["shape"]]
    if not isinstance(shape, list | tuple) or len(shape) > 32:
        raise FormatError(f"input '{name}': its shape is {shape!r:.80}; was the model built before it was saved?")
    value = Value(ctx.unique(name), _dtype(config, name), _shape(shape, name))
    ctx.graph.inputs.append(value)
    return value


def _shape(sizes: Sequence[Any], name: str) -> Shape:
    if any(n is not None and (not isinstance(n, int) or n < 0) for n in sizes):
        raise FormatError(f"input '{name}': its shape is {list(sizes)!r:.80}")
    return tuple(n if n is not None else BATCH if i == 0 else f"{name}.{i}" for i, n in enumerate(sizes))


def _dtype(config: Config, name: str) -> DType:
    text = config.get("dtype") or "float32"
    if isinstance(text, Mapping):
        text = text.get("config", {}).get("name")
    text = str(text).removeprefix("mixed_")
    known = {d.numpy.name: d for d in DType if d is not DType.STR}
    if text not in known:
        raise FormatError(f"input '{name}': its element type is {text!r:.40}; tensors of numbers are expected")
    return known[text]


def _row_input(model: Part) -> tuple[str, Config]:
    """The input of a row of layers: its input layer, or what the first layer says."""
    first = model.inside[0] if model.inside else None
    if first is None:
        raise FormatError(f"{model.where}: it has no layers")
    if first.kind == "InputLayer":
        return first.name, first.config
    config = dict(first.config)
    if "batch_input_shape" not in config:
        inner = next((p for p in first.inside if p.kind == "InputLayer"), None)
        built = model.config.get("build_input_shape") or (
            inner.config.get("batch_shape") if inner is not None else None
        )
        config = {
            "batch_input_shape": built,
            "dtype": (inner.config if inner is not None else first.config).get("dtype"),
        }
    return f"{first.name}_input", config


def _run_row(ctx: KerasContext, model: Part, given: list[Value]) -> list[Value]:
    values = given
    for part in model.inside:
        if part.kind != "InputLayer":
            values = ctx.layer(part, values if len(values) == 1 else [values], {})
    return values


def _listed(config: Config) -> list[Config]:
    layers = config.get("layers")
    if not isinstance(layers, list):
        raise FormatError(f"a model's layers are {layers!r:.80}; is the file damaged?")
    return layers


def _parts(config: Config) -> Sequence[tuple[str, Config]]:
    return numbered(_listed(config), "layers")


@keras_layer(ROW, parts=_parts, is_model=True)
def sequential(ctx: KerasContext, node: KerasNode) -> list[Value]:
    return _run_row(ctx, node.part, _with_masks(ctx, node))


@keras_layer(*CALLS, parts=_parts, is_model=True)
def functional(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """A model within another one: its input layers stand for what it is given, in order."""
    given = _with_masks(ctx, node)
    order = [r.layer for r in _refs(_tree(node.config.get("input_layers"), None))]
    if len(order) != len(given):
        raise FormatError(f"{node.where}: it is given {len(given)} tensors, and has {len(order)} inputs")
    calls = _Calls(ctx, node.part, dict(zip(order, given, strict=True)))
    return calls.of(_refs(_tree(node.config.get("output_layers"), None)))


def _with_masks(ctx: KerasContext, node: KerasNode) -> list[Value]:
    inputs = node.inputs
    for value, mask in zip(inputs, node.masks, strict=False):
        if mask is not None:
            ctx.masks.setdefault(value, mask)
    return inputs


@keras_layer("InputLayer")
def input_layer(ctx: KerasContext, node: KerasNode) -> list[Value]:
    return node.inputs


class _Calls:
    """The calls of a model's layers, as far as something needs what they give."""

    def __init__(self, ctx: KerasContext, model: Part, inputs: Mapping[str, Value]) -> None:
        self._ctx, self._model = ctx, model
        self._parts = {part.name: part for part in model.inside}
        if len(self._parts) != len(model.inside):
            raise FormatError(f"{model.where}: two of its layers have the same name")
        self._calls: dict[tuple[str, int], Call] = {}
        self._done: dict[tuple[str, int], list[Value]] = {(name, 0): [value] for name, value in inputs.items()}
        for part, spec in zip(model.inside, _listed(model.config), strict=True):
            nodes = spec.get("inbound_nodes") or []
            if not isinstance(nodes, list):
                raise FormatError(f"{part.where}: its calls are {nodes!r:.80}")
            for i, node in enumerate(nodes):
                self._calls[part.name, i] = _call(node, self._parts.keys())

    def of(self, refs: Sequence[Ref]) -> list[Value]:
        """Outputs. The calls that they need are made in Keras' order: those first that are furthest from the outputs,
        which matters as some layers take away the masks of what they are given."""
        last = [self._key(ref, (*CALLS, ROW) if self._ctx.of_old else CALLS) for ref in refs]
        depths: dict[tuple[str, int], int] = {}
        of_layer: dict[str, int] = {}  # calls of a layer that is shared are as deep as the deepest of them
        for key in reversed(self._ordered(last)):
            depths[key] = of_layer[key[0]] = max(depths.get(key, 0), of_layer.get(key[0], 0))
            for needed in self._needed(key):
                depths[needed] = max(depths[key] + 1, depths.get(needed, 0))
        for key in sorted(depths, key=lambda k: -depths[k]):
            self._done[key] = self._made(key, self._calls[key])
        return [self._result(key, ref) for key, ref in zip(last, refs, strict=True)]

    def _needed(self, key: tuple[str, int]) -> list[tuple[str, int]]:
        """The calls that a call needs and that have not been made."""
        call = self._calls[key]
        found = (self._operand(call, r) for r in _refs([call.args, call.kwargs]))
        return [k for k in found if k not in self._done]

    def _ordered(self, last: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """All calls that are needed, each behind those that it needs itself; without recursion."""
        found, entered = dict[tuple[str, int], None](), set[tuple[str, int]]()
        stack = [key for key in reversed(last) if key not in self._done]
        while stack:
            now = stack[-1]
            needed = [] if now in found else [k for k in self._needed(now) if k not in found]
            if not needed:
                found[now] = None
                stack.pop()
                continue
            if now in entered:
                raise FormatError(f"layer '{now[0]}' needs its own result: the model has a cycle")
            entered.add(now)
            stack += reversed(needed)
        return list(found)

    def _operand(self, call: Call, ref: Ref) -> tuple[str, int]:
        return self._key(ref, MODELS if call.of_old else ())

    def _key(self, ref: Ref, counted: Sequence[str]) -> tuple[str, int]:
        """The call that a reference means. Models within models have a first call of their own, which is not in files:
        Keras 2 counts it wherever it refers to such layers, Keras 3 does in its list of outputs alone."""
        part = self._parts.get(ref.layer)
        first = ref.node - (part is not None and part.kind in counted)
        for node in (first, ref.node, ref.node - 1):
            if (ref.layer, node) in self._calls or (ref.layer, node) in self._done:
                return ref.layer, node
        raise FormatError(f"layer '{ref.layer[:100]}': nothing makes the result of its call {ref.node}")

    def _result(self, key: tuple[str, int], ref: Ref) -> Value:
        values = self._done[key]
        if not 0 <= ref.index < len(values):
            if len(self._ctx.model.report.problems):
                return values[0]
            raise FormatError(f"layer '{ref.layer}': it has no result {ref.index}")
        return values[ref.index]

    def _made(self, key: tuple[str, int], call: Call) -> list[Value]:
        def value(ref: Ref) -> Value:
            return self._result(self._operand(call, ref), ref)

        args, kwargs = (_resolved(tree, value) for tree in (call.args, call.kwargs))
        return self._ctx.layer(self._parts[key[0]], args, kwargs)


# -- how calls are written ---------------------------------------------------------------------------------------------


def _call(node: Any, known: Any) -> Call:
    """Keras 3 writes arguments as they are; Keras 2 ``[layer, node, index, arguments by name]`` for each tensor."""
    if isinstance(node, Mapping):
        args, kwargs = _tree(node.get("args") or [], ()), _tree(node.get("kwargs") or {}, ())
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise FormatError(f"a layer is called with {node!r:.100}; is the file damaged?")
        return Call(args, kwargs, of_old=False)
    kwargs = {}
    operands = node if isinstance(node, list) and node and isinstance(node[0], list) else [node]

    def operand(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {key: operand(value) for key, value in item.items()}
        if not isinstance(item, list) or len(item) < 3 or not isinstance(item[0], str):
            if isinstance(item, list):
                return [operand(value) for value in item]
            raise FormatError(f"a layer is called with {item!r:.100}; is the file damaged?")
        if len(item) > 3 and isinstance(item[3], Mapping):
            kwargs.update(_tree(item[3], known))
        return item[2] if item[0] == "_CONSTANT_VALUE" else Ref(item[0], *_whole(item[1:3]))

    args = [operand(item) for item in operands]
    return Call(args if len(args) == 1 else [args], kwargs, of_old=True)


def _whole(numbers: Sequence[Any]) -> tuple[int, int]:
    if not all(isinstance(n, int) for n in numbers):
        raise FormatError(f"a layer's result is called {list(numbers)!r:.100}; is the file damaged?")
    return numbers[0], numbers[1]


def _tree(item: Any, known: Any, depth: int = 0) -> Any:
    """Arguments with tensors as :class:`Ref`; ``known`` are the layers that a list may begin with to be one (None: all
    lists of a text and two numbers are)."""
    if depth > 32:
        raise FormatError("arguments of a layer lie 32 deep within each other; is the file damaged?")
    if isinstance(item, list):
        if len(item) in (3, 4) and isinstance(item[0], str) and (known is None or item[0] in known):
            return Ref(item[0], *_whole(item[1:3]))
        if len(item) == 4 and item[0] == "_CONSTANT_VALUE":
            return item[2]
        return [_tree(value, known, depth + 1) for value in item]
    if not isinstance(item, Mapping):
        return item
    kind, config = item.get("class_name"), item.get("config")
    if kind == "__tuple__" and isinstance(item.get("items"), list):
        return [_tree(value, known, depth + 1) for value in item["items"]]
    if kind == "__ellipsis__":
        return Ellipsis
    if isinstance(kind, str) and isinstance(config, Mapping):
        if kind == "__keras_tensor__":
            history = config.get("keras_history")
            if not isinstance(history, list) or len(history) != 3 or not isinstance(history[0], str):
                raise FormatError(f"a tensor without an origin: {item!r:.100}")
            return Ref(history[0], *_whole(history[1:]))
        if kind in ("__tensor__", "__numpy__"):
            return _numbers(config)
        if kind == "__slice__":
            return slice(*(_tree(config.get(key), known, depth + 1) for key in ("start", "stop", "step")))
    return {key: _tree(value, known, depth + 1) for key, value in item.items()}


def _numbers(config: Mapping[str, Any]) -> np.ndarray:
    """A constant of a call. Raises :class:`FormatError` for lists that are of no shape, and types that are none."""
    try:
        found = np.asarray(config.get("value"), str(config.get("dtype")))
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"a constant cannot be read; is the file damaged? ({str(error)[:100]})") from error
    if found.dtype.kind not in "fiub":
        raise FormatError(f"a constant is of type {found.dtype}; tensors of numbers are expected")
    return found


def _refs(tree: Any) -> list[Ref]:
    if isinstance(tree, Ref):
        return [tree]
    if isinstance(tree, list):
        return [r for item in tree for r in _refs(item)]
    if isinstance(tree, slice):
        return _refs([tree.start, tree.stop, tree.step])
    if isinstance(tree, Mapping):
        return [r for key in sorted(tree) for r in _refs(tree[key])]
    return []


def _resolved(tree: Any, value: Any) -> Any:
    if isinstance(tree, Ref):
        return value(tree)
    if isinstance(tree, list):
        return [_resolved(item, value) for item in tree]
    if isinstance(tree, slice):
        return slice(*(_resolved(v, value) for v in (tree.start, tree.stop, tree.step)))
    if isinstance(tree, Mapping):
        return {key: _resolved(item, value) for key, item in tree.items()}
    return tree

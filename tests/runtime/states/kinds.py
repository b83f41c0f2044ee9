"""Random models that remember, in ONNX and in numpy: caches that grow, rings, windows of streams, variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.random.attention import attend, turned

F32, I64, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
Arrays = dict[str, np.ndarray]


class Kind(ABC):
    """One model. Its states are ``name`` to ``name + '.next'``; what numpy keeps are arrays of these names, and ``at``,
    where every sequence is, for those whose caches do not tell."""

    grows = False
    """Whether its states have a length, which may be gone back to."""
    max_length: int | None = None

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.states: list[str] = []
        self.nodes: list[NodeProto] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: Arrays = {}

    @abstractmethod
    def begin(self, batch: int) -> Arrays:
        """What is kept before the first run."""

    @abstractmethod
    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        """Random inputs."""

    @abstractmethod
    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        """The output ``y`` and what is kept then."""

    def cut(self, kept: Arrays, length: int) -> Arrays:
        """What is kept, so long; of caches that grow in their last axis but one."""
        return {name: array[..., :length, :] for name, array in kept.items()}

    def input(self, name: str, shape: list[Any], kind: int = F32) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def state(self, name: str, shape: list[Any], after: list[Any] | None = None) -> tuple[str, str]:
        self.states.append(name)
        self.input(name, shape)
        self.outputs.append(helper.make_tensor_value_info(f"{name}.next", F32, after or shape))
        return name, f"{name}.next"

    def node(self, op: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))

    def source(self) -> bytes:
        weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in self.constants.items()]
        results = [helper.make_tensor_value_info("y", F32, None), *self.outputs]
        graph = helper.make_graph(self.nodes, "kind", self.inputs, results, weights)
        opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
        found: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return found

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def count(self) -> int:
        """How many rows a step brings."""
        return int(self.rng.choice([1, 1, 1, 2, 3, 7]))


class Attending(Kind):
    """Attention with past keys and values, causal, of grouped heads; in one of two operators."""

    grows = True

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.groups, self.per, self.size = (
            int(rng.integers(1, 3)),
            int(rng.integers(1, 3)),
            int(rng.choice([4, 8, 16, 20])),
        )
        self.flat = bool(rng.random() < 0.4)
        if self.flat:
            self.per = 1
        heads, size = self.groups * self.per, self.size
        for name, n in (("q", heads), ("k", self.groups), ("v", self.groups)):
            self.input(name, ["b", "s", n * size] if self.flat else ["b", n, "s", size])
        pairs = [self.state(f"past {n}", ["b", self.groups, "p", size], ["b", self.groups, "t", size]) for n in "kv"]
        outputs = ["y", *(after for _, after in pairs)]
        before = [name for name, _ in pairs]
        if self.flat:
            self.node("MultiHeadAttention", ["q", "k", "v", "", "", "", *before], outputs, "com.microsoft",
                      num_heads=heads, unidirectional=1)  # fmt: skip
        else:
            self.node("Attention", ["q", "k", "v", "", *before], outputs, is_causal=1)

    def begin(self, batch: int) -> Arrays:
        return {name: np.zeros((batch, self.groups, 0, self.size), np.float32) for name in self.states}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        rows, found = self.count(), {}
        for name, n in (("q", self.groups * self.per), ("k", self.groups), ("v", self.groups)):
            found[name] = (
                self.normal(batch, rows, n * self.size) if self.flat else self.normal(batch, n, rows, self.size)
            )
        return found

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        parts = [feeds[n] for n in "qkv"]
        if self.flat:
            parts = [t.reshape(*t.shape[:2], -1, self.size).transpose(0, 2, 1, 3) for t in parts]
        q, *new = parts
        after = {name: np.concatenate([kept[name], t], 2) for name, t in zip(self.states, new, strict=True)}
        k, v = (after[name].astype(np.float64) for name in self.states)
        rows, keys = q.shape[2], k.shape[2]
        seen = np.arange(keys) <= np.arange(rows)[:, None] + keys - rows
        y = attend(q.astype(np.float64), k, v, seen=seen)
        return (y.transpose(0, 2, 1, 3).reshape(y.shape[0], rows, -1) if self.flat else y), after


class Growing(Kind):
    """Two caches that are appended to, one of them also given out; all are summed."""

    grows = True

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.width, self.turned = int(rng.integers(1, 20)), bool(rng.random() < 0.5)
        self.input("x", ["b", "n", self.width])
        for name in ("first", "second"):
            before, after = self.state(name, ["b", "p", self.width], ["b", "t", self.width])
            self.node("Concat", [before, "x" if name == "first" else "more"], [after], axis=1)
        self.node("Mul", ["x", "two"], ["more"])
        self.node("Sub", ["first.next", "second.next"], ["apart"])
        self.node("CumSum", ["apart", "axis"], ["y"])
        self.constants = {"two": np.float32(2), "axis": np.array(1)}

    def begin(self, batch: int) -> Arrays:
        return {name: np.zeros((batch, 0, self.width), np.float32) for name in self.states}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        return {"x": self.normal(batch, self.count(), self.width)}

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        x = feeds["x"]
        after = {name: np.concatenate([kept[name], t], 1) for name, t in (("first", x), ("second", 2 * x))}
        return np.cumsum(after["first"].astype(np.float64) - after["second"], 1), after


class Ring(Kind):
    """Attention over a cache of one size, every sequence of the batch at its own place in it; linear or circular."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.heads, self.size, self.room = (
            int(rng.integers(1, 4)),
            int(rng.choice([4, 8, 16])),
            int(rng.integers(9, 30)),
        )
        self.open, self.circular = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        self.max_length = self.room if self.open else None
        cache = ["b", self.heads, "room" if self.open else self.room, self.size]
        for name in "qkv":
            self.input(name, ["b", self.heads, "s", self.size])
        self.input("at", ["b"], I64)
        self.input("filled", ["b"], I64)
        for name in "kv":
            before, after = self.state(f"cache {name}", cache)
            self.node("TensorScatter", [before, name, "at"], [after], mode="circular" if self.circular else "linear")
        self.node("Attention", ["q", "cache k.next", "cache v.next", "", "", "", "filled"], ["y"])

    def begin(self, batch: int) -> Arrays:
        empty = {name: np.zeros((batch, self.heads, self.room, self.size), np.float32) for name in self.states}
        return {**empty, "at": np.zeros(batch, np.int64)}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        rows = self.count()
        at = kept["at"]
        if self.circular:
            at = np.where(self.rng.random(batch) < 0.1, 0, at)
        else:
            at = np.where(at + rows > self.room, 0, at)
        found = {name: self.normal(batch, self.heads, rows, self.size) for name in "qkv"}
        return {**found, "at": at, "filled": np.minimum(at + rows, self.room)}

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        after = {name: kept[name].copy() for name in self.states}
        rows = feeds["q"].shape[2]
        for row, first in enumerate(feeds["at"]):
            for i in range(rows):
                for name in "kv":
                    after[f"cache {name}"][row, :, (first + i) % self.room] = feeds[name][row, :, i]
        seen = (np.arange(self.room) < feeds["filled"][:, None])[:, None, None]
        y = attend(*(t.astype(np.float64) for t in (feeds["q"], *after.values())), seen=seen)
        return y, {**after, "at": feeds["at"] + self.rng.integers(0, rows + 1, len(feeds["at"]))}


class Grouped(Kind):
    """Group-query attention, turned by positions: every sequence of a batch of its own length in its own cache."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.groups, self.per, self.size, self.room = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 16, 24
        self.rotary, self.window = bool(rng.random() < 0.5), int(rng.choice([-1, 4]))
        for name, n in (("q", self.groups * self.per), ("k", self.groups), ("v", self.groups)):
            self.input(name, ["b", 1, n * self.size])
        for name in "kv":
            self.state(f"past {name}", ["b", self.groups, self.room, self.size])
        self.input("last", ["b"], I32)
        self.input("total", [], I32)
        names = ["q", "k", "v", *self.states, "last", "total"]
        if self.rotary:
            angles = np.arange(self.room)[:, None] / 10 ** (np.arange(8) / 8)
            self.constants = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
            names += ["cos", "sin"]
        self.node("GroupQueryAttention", names, ["y", *(f"{name}.next" for name in self.states)], "com.microsoft",
                  num_heads=self.groups * self.per, kv_num_heads=self.groups, do_rotary=int(self.rotary),
                  local_window_size=self.window)  # fmt: skip

    def begin(self, batch: int) -> Arrays:
        empty = {name: np.zeros((batch, self.groups, self.room, self.size), np.float32) for name in self.states}
        return {**empty, "at": np.zeros(batch, np.int64)}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        at = np.where((kept["at"] >= self.room) | (self.rng.random(batch) < 0.1), 0, kept["at"])
        found = {
            n: self.normal(batch, 1, g * self.size)
            for n, g in (("q", self.groups * self.per), ("k", self.groups), ("v", self.groups))
        }
        return {**found, "last": at.astype(np.int32), "total": np.array(at.max() + 1, np.int32)}

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        at = feeds["last"].astype(np.int64)
        parts = [feeds[n].reshape(len(at), 1, -1, self.size).transpose(0, 2, 1, 3).astype(np.float64) for n in "qkv"]
        if self.rotary:
            tables = self.constants["cos"], self.constants["sin"]
            parts[:2] = (turned(t, at[:, None], *tables, False) for t in parts[:2])
        after = {name: kept[name].copy() for name in self.states}
        for name, new in zip(self.states, parts[1:], strict=True):
            after[name][np.arange(len(at)), :, at] = new[:, :, 0]
        behind = at[:, None] - np.arange(self.room)
        seen = (behind >= 0) & (behind < (self.window if self.window > 0 else self.room))
        y = attend(parts[0], *(after[name].astype(np.float64) for name in self.states), seen=seen[:, None, None])
        return y.transpose(0, 2, 1, 3).reshape(len(at), 1, -1), {**after, "at": at + 1}


class Stream(Kind):
    """Convolutions along a stream, each with the end of what it saw before, and how much came in all."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.layers = [(int(rng.integers(2, 6)), int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 3)))]
        self.width = int(rng.choice([1, 3, 8]))
        self.weights = []
        self.constants = {"end": np.array([1 << 40]), "axis": np.array([2]), "axes": np.array([1, 2])}
        last = self.input("x", ["b", self.width, "n"])
        for i, (kernel, dilation) in enumerate(self.layers):
            tail, name = (kernel - 1) * dilation, f"tail{i}"
            self.weights.append(self.normal(self.width, self.width, kernel) / np.float32(np.sqrt(kernel * self.width)))
            self.constants |= {f"w{i}": self.weights[-1], f"from{i}": np.array([-tail])}
            before, after = self.state(name, ["b", self.width, tail])
            self.node("Concat", [before, last], [f"whole{i}"], axis=2)
            self.node("Slice", [f"whole{i}", f"from{i}", "end", "axis"], [after])
            last = "y" if i == len(self.layers) - 1 else f"z{i}"
            self.node("Conv", [f"whole{i}", f"w{i}"], [last], dilations=[dilation])
        before, after = self.state("sum", ["b"])
        self.node("ReduceSum", ["x", "axes"], ["these"], keepdims=0)
        self.node("Add", [before, "these"], [after])

    def begin(self, batch: int) -> Arrays:
        tails = [(kernel - 1) * dilation for kernel, dilation in self.layers]
        found = {f"tail{i}": np.zeros((batch, self.width, n), np.float32) for i, n in enumerate(tails)}
        return {**found, "sum": np.zeros(batch, np.float32)}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        return {"x": self.normal(batch, self.width, int(self.rng.choice([1, 2, 5, 16, 33])))}

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        x, after = feeds["x"].astype(np.float64), {"sum": kept["sum"] + feeds["x"].astype(np.float64).sum((1, 2))}
        for i, ((kernel, dilation), w) in enumerate(zip(self.layers, self.weights, strict=True)):
            whole = np.concatenate([kept[f"tail{i}"], x], 2)
            after[f"tail{i}"] = whole[:, :, whole.shape[2] - (kernel - 1) * dilation :]
            count = x.shape[2]
            x = sum(
                np.einsum("oi,bin->bon", w[:, :, t], whole[:, :, t * dilation : t * dilation + count])
                for t in range(kernel)
            )
        return x, after


class Variables(Kind):
    """What a recurrence holds: a hidden state that is mixed with the input, and the largest so far."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.width = int(rng.integers(1, 40))
        self.weights = self.normal(self.width, self.width) / np.float32(np.sqrt(self.width))
        self.constants = {"w": self.weights}
        self.input("x", ["b", self.width])
        hidden, mixed = self.state("hidden", ["b", self.width])
        self.node("MatMul", [hidden, "w"], ["turned"])
        self.node("Add", ["turned", "x"], ["both"])
        self.node("Tanh", ["both"], [mixed])
        largest, larger = self.state("largest", ["b", self.width])
        self.node("Max", [largest, mixed], [larger])
        self.node("Sub", [larger, hidden], ["y"])

    def begin(self, batch: int) -> Arrays:
        return {name: np.zeros((batch, self.width), np.float32) for name in self.states}

    def feeds(self, batch: int, kept: Arrays) -> Arrays:
        return {"x": self.normal(batch, self.width)}

    def step(self, kept: Arrays, feeds: Arrays) -> tuple[np.ndarray, Arrays]:
        mixed = np.tanh(kept["hidden"].astype(np.float64) @ self.weights + feeds["x"])
        larger = np.maximum(kept["largest"], mixed)
        return larger - kept["hidden"], {"hidden": mixed, "largest": larger}


KINDS = (Attending, Growing, Ring, Grouped, Stream, Variables)

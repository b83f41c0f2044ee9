"""Writes ncnn models: layers with parameters and weights, as text, as .param.bin and as .bin."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.frontends.ncnn.layer_types import NAMES

HALF, BYTES = 0x01306B47, 0x000D4B38


@dataclass
class Weight:
    """``kind``: plain, float (tagged), half, bytes (tagged 8-bit integers), table (256 numbers and places)."""

    array: np.ndarray
    kind: str = "float"

    def stored(self) -> bytes:
        flat = np.ascontiguousarray(self.array).reshape(-1)
        if self.kind == "plain":
            return flat.astype("<f4").tobytes()
        if self.kind == "float":
            return struct.pack("<I", 0) + flat.astype("<f4").tobytes()
        if self.kind == "half":
            return struct.pack("<I", HALF) + _padded(flat.astype("<f2").tobytes())
        if self.kind == "bytes":
            return struct.pack("<I", BYTES) + _padded(flat.astype(np.int8).tobytes())
        table = np.linspace(-1, 1, 256, dtype="<f4")
        places = np.abs(flat[:, None] - table).argmin(1).astype(np.uint8)
        return struct.pack("<I", 1) + table.tobytes() + _padded(places.tobytes())


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


@dataclass
class Model:
    layers: list[tuple[str, list[str], list[str], dict[int, Any], list[Weight]]] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)

    def input(self, array: np.ndarray, described: bool = True) -> str:
        """An input with its numbers; ``described``: the file tells its shape."""
        name = f"in{len(self.feeds)}"
        keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[array.ndim]
        params = dict(sorted(zip(keys, array.shape, strict=True))) if described else {}
        self.layers.append(("Input", [], [name], params, []))
        self.feeds[name] = array
        return name

    def layer(
        self, kind: str, inputs: Sequence[str], params: Mapping[int, Any] = {}, weights: Sequence[Weight] = (),
        outputs: int = 1,
    ) -> list[str]:  # fmt: skip
        names = [f"b{len(self.layers)}_{i}" for i in range(outputs)]
        self.layers.append((kind, list(inputs), names, dict(params), list(weights)))
        return names

    def one(
        self, kind: str, inputs: Sequence[str], params: Mapping[int, Any] = {}, weights: Sequence[Weight] = ()
    ) -> str:
        return self.layer(kind, inputs, params, weights)[0]

    def outputs(self) -> list[str]:
        used = {b for _, ins, *_ in self.layers for b in ins}
        return [b for kind, _, outs, *_ in self.layers if kind != "Input" for b in outs if b not in used]

    def text(self) -> bytes:
        blobs = sum(len(outs) for _, _, outs, *_ in self.layers)
        lines = ["7767517", f"{len(self.layers)} {blobs}"]
        for i, (kind, ins, outs, params, _) in enumerate(self.layers):
            words = [kind, f"layer{i}", str(len(ins)), str(len(outs)), *ins, *outs]
            lines.append(" ".join([*words, *(_param(k, v) for k, v in params.items())]))
        return ("\n".join(lines) + "\n").encode()

    def numbers(self) -> dict[str, int]:
        """The blobs' numbers in the binary form."""
        return {b: i for i, b in enumerate(b for _, _, outs, *_ in self.layers for b in outs)}

    def binary(self) -> bytes:
        numbers = self.numbers()
        out = struct.pack("<iii", 7767517, len(self.layers), len(numbers))
        for kind, ins, outs, params, _ in self.layers:
            out += struct.pack(
                f"<{3 + len(ins) + len(outs)}i",
                NAMES.index(kind),
                len(ins),
                len(outs),
                *(numbers[b] for b in ins + outs),
            )
            for key, value in params.items():
                if isinstance(value, str):
                    data = _padded(value.encode())
                    out += struct.pack("<ii", -23400 - key, len(value)) + data
                elif isinstance(value, (list, tuple)):
                    out += struct.pack("<ii", -23300 - key, len(value)) + b"".join(map(_word, value))
                else:
                    out += struct.pack("<i", key) + _word(value)
            out += struct.pack("<i", -233)
        return out

    def weights(self) -> bytes:
        return b"".join(w.stored() for *_, weights in self.layers for w in weights)


def _word(value: float) -> bytes:
    return struct.pack("<f" if isinstance(value, float) else "<i", value)


def _param(key: int, value: Any) -> str:
    if isinstance(value, str):
        return f'{key}="{value}"'
    if isinstance(value, (list, tuple)):
        return f"-233{key:02d}={len(value)}" + "".join(f",{_number(v)}" for v in value)
    return f"{key}={_number(value)}"


def _number(value: float) -> str:
    return f"{value:e}" if isinstance(value, float) else str(value)

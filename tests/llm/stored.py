"""How checkpoints store experts, and how transformers has them in memory: all in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BOTH, _DOWN = ".block_sparse_moe.experts.gate_up_proj", ".block_sparse_moe.experts.down_proj"
_WHOLE = ("granitemoe", "granitemoehybrid", "gpt_oss")
"""Families whose files have all experts of a layer in one tensor, too."""
_MIXTRAL = ("w1", "w3", "w2")
_USUAL = ("gate_proj", "up_proj", "down_proj")


def stored_shapes(family: str, shapes: dict[str, list[int]]) -> dict[str, list[int]]:
    """From the shapes in memory to those in files."""
    found: dict[str, list[int]] = {}
    for name, shape in shapes.items():
        layer, _, kind = name.rpartition(_inside(family))
        if family in _WHOLE or not layer:
            found[_renamed(family, name)] = shape
            continue
        count, rows, cols = shape
        for i in range(count):
            for part, height in _parts(family, kind, rows):
                found[f"{layer}.{_room(family)}.experts.{i}.{part}.weight"] = [height, cols]
    return found


def in_memory(family: str, names: Sequence[str], files: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """From the weights in files to those in memory, which have these names."""
    found = {}
    for name in names:
        layer, _, kind = name.rpartition(_inside(family))
        if family in _WHOLE or not layer:
            found[name] = files[_renamed(family, name)]
            continue
        each = []
        while f"{layer}.{_room(family)}.experts.{len(each)}.{_names(family)[0]}.weight" in files:
            at = f"{layer}.{_room(family)}.experts.{len(each)}"
            each.append(np.concatenate([files[f"{at}.{part}.weight"] for part, _ in _parts(family, kind, 2)]))
        found[name] = np.stack(each)
    return found


def _inside(family: str) -> str:
    """Where experts are in memory."""
    return ".feed_forward.experts." if family == "lfm2_moe" else ".mlp.experts."


def _names(family: str) -> tuple[str, str, str]:
    return _MIXTRAL if family in ("mixtral", "lfm2_moe") else _USUAL


def _room(family: str) -> str:
    return {"mixtral": "block_sparse_moe", "lfm2_moe": "feed_forward"}.get(family, "mlp")


def _parts(family: str, kind: str, rows: int) -> list[tuple[str, int]]:
    gate, up, down = _names(family)
    return [(down, rows)] if kind == "down_proj" else [(gate, rows // 2), (up, rows // 2)]


def _renamed(family: str, name: str) -> str:
    if family.startswith("granitemoe"):
        name = name.replace(_BOTH, ".block_sparse_moe.input_linear.weight")
        name = name.replace(_DOWN, ".block_sparse_moe.output_linear.weight")
        return name.replace(".block_sparse_moe.router.weight", ".block_sparse_moe.router.layer.weight")
    return name.replace(".mlp.gate.weight", ".block_sparse_moe.gate.weight") if family == "mixtral" else name

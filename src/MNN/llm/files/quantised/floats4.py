"""Matrices of 4-bit floats: NVFP4 as compressed-tensors (``nvfp4-pack-quantized``) and NVIDIA's Model Optimizer store
it, and MXFP4 as compressed-tensors does (``mxfp4-pack-quantized``).

Two numbers lie in a byte, the first in the lower half. Of 16 neighbours NVFP4 has a scale in an 8-bit float, and one
for the whole matrix, by which the former are divided (compressed-tensors) or multiplied (Model Optimizer); of 32
MXFP4 has an exponent (OCP Microscaling Formats 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import UnsupportedError
from MNN.llm.files.gguf.small_blocks import FP4_VALUES
from MNN.llm.files.quantised.compressed import ScaledTensor
from MNN.llm.files.quantised.grouped import GroupedTensor, Groups, halves, wrong
from MNN.llm.files.tensors import Rows, WeightTensor

FORMS = ("nvfp4-pack-quantized", "mxfp4-pack-quantized")
"""Of compressed-tensors."""
OPTIMIZER = "modelopt"
_ALGORITHMS = ("NVFP4", "FP8")
_ACTIVATIONS = ("input_scale", "input_global_scale", "k_scale", "v_scale", "k_proj.k_scale", "pre_quant_scale")


class FloatTensor(GroupedTensor):
    """A matrix of 4-bit floats: the levels, doubled, are small integers, and no number is rounded. ``over``: what
    scales are divided by, ``times``: what they are multiplied by."""

    def __init__(
        self, packed: WeightTensor, scale: WeightTensor, name: str, over: WeightTensor | None = None,
        times: WeightTensor | None = None,
    ) -> None:  # fmt: skip
        whole = [one for one in (over, times) if one is not None]
        if len(packed.shape) != 2 or packed.dtype != np.uint8 or any(one.size != 1 for one in whole):
            raise wrong(name, "is no matrix of 4-bit floats", packed, scale, *whole)
        outputs, inputs = packed.shape[0], 2 * packed.shape[1]
        size = 16 if whole else 32
        if inputs % size or scale.shape != (outputs, inputs // size):
            raise wrong(name, f"has scales that are not those of blocks of {size}", packed, scale, *whole)
        super().__init__(name, (outputs, inputs), 8, "NVFP4" if whole else "MXFP4")
        self._packed, self._scale, self._over, self._times = packed, scale, over, times

    def _read(self, rows: Rows) -> Groups:
        codes = FP4_VALUES[halves(np.ascontiguousarray(self._packed.numpy()[rows]))]
        held = self._scale
        if held.dtype == np.uint8:
            return Groups(codes, np.ldexp(np.float32(0.5), held.numpy()[rows].astype(np.int32) - 127))
        scale = held.float32()[rows]
        with np.errstate(all="ignore"):  # a file may hold any scale
            if self._over is not None:
                scale = scale / self._over.float32().reshape(())
            if self._times is not None:
                scale = scale * self._times.float32().reshape(())
            return Groups(codes, scale * np.float32(0.5))


def unite(tensors: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """compressed-tensors' ``X.weight_packed`` and what lies beside it as ``X.weight``."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part == "weight_packed":
            scale, over = (tensors.get(f"{module}.{kind}") for kind in ("weight_scale", "weight_global_scale"))
            if scale is None:
                raise wrong(f"{module}.weight", "has no scales", tensor)
            found[f"{module}.weight"] = FloatTensor(tensor, scale, f"{module}.weight", over)
        elif part not in ("weight_scale", "weight_global_scale", *_ACTIVATIONS):
            found[name] = tensor
    return found


def unite_optimized(
    tensors: Mapping[str, WeightTensor], config: Mapping[str, object], where: str
) -> dict[str, WeightTensor]:  # fmt: skip
    """Model Optimizer's ``X.weight`` and its scales as one. UnsupportedError for algorithms that are not known."""
    algorithm = config.get("quant_algo")
    if algorithm not in _ALGORITHMS or any(name.endswith(".pre_quant_scale") for name in tensors):
        raise UnsupportedError(
            f"{where}: Model Optimizer's {algorithm!r:.60} cannot be read, only {', '.join(_ALGORITHMS)}"
        )
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        scale, times = (tensors.get(f"{module}.{kind}") for kind in ("weight_scale", "weight_scale_2"))
        if part == "weight" and scale is not None and tensor.dtype == np.uint8:
            found[name] = FloatTensor(tensor, scale, name, times=times)
        elif part == "weight" and scale is not None and tensor.dtype.itemsize == 1:
            found[name] = ScaledTensor({"weight": tensor, "weight_scale": scale}, name, (1, 1), None)
        elif part not in ("weight_scale", "weight_scale_2", *_ACTIVATIONS):
            found[name] = tensor
    return found


__all__ = ["FORMS", "OPTIMIZER", "FloatTensor", "unite", "unite_optimized"]

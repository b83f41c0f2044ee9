"""Checkpoints whose weights are quantised, by the tool that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from MNN.llm.files.quantised import awq_rows, bitsandbytes, compressed, floats4, hqq, mxfp4, packed, torchao
from MNN.llm.files.tensors import WeightTensor

Tensors = dict[str, WeightTensor]


def united(tensors: Tensors, told: Mapping[str, Any], notes: Callable[[], Mapping[str, object]], where: str) -> Tensors:
    """The same tensors, with those that are parts of a weight as one.

    ``told``: what ``config.json`` says; ``notes`` gives the metadata of the files. UnsupportedError for tools and
    forms that are not known, FormatError for parts that do not fit.
    """
    how = told.get("quantization_config")
    if not isinstance(how, Mapping):
        return tensors
    method, form = how.get("quant_method"), how.get("format")
    if method == mxfp4.METHOD:
        return mxfp4.unite(tensors)
    if method == bitsandbytes.METHOD:
        return bitsandbytes.unite(tensors, where)
    if method == hqq.METHOD:
        return hqq.unite(tensors, where)
    if method == torchao.METHOD:
        return torchao.unite(tensors, notes(), where)
    if method == floats4.OPTIMIZER:
        return floats4.unite_optimized(tensors, how, where)
    if method in compressed.METHODS:
        return floats4.unite(tensors) if form in floats4.FORMS else compressed.unite(tensors, how, where)
    if method == "awq" and str(how.get("version", "")).lower() in awq_rows.VERSIONS:
        return awq_rows.unite(tensors, how, where)
    packing = packed.Packing.of(told, where)
    return tensors if packing is None else packed.unite(tensors, packing, where)


__all__ = ["united"]

"""Networks as functions on Vars: modules loaded from files or written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from MNN.absent import absent
from MNN.nn import compress, loss
from MNN.nn.extracted import load_module
from MNN.nn.initial import seed
from MNN.nn.layers import batch_norm, conv, dropout, embedding, layer_norm, linear
from MNN.nn.loaded import load_module_from_file
from MNN.nn.module import EmptyModule, Module, load, save
from MNN.nn.runtime_config import RuntimeManager, create_runtime_manager

dummy = EmptyModule()

__all__ = [
    "EmptyModule", "Module", "RuntimeManager", "batch_norm", "compress", "conv", "create_runtime_manager", "dropout",
    "dummy", "embedding", "layer_norm", "linear", "load", "load_module", "load_module_from_file", "loss",
    "save", "seed",
]  # fmt: skip

if not TYPE_CHECKING:  # names that are not here are errors for type checkers

    def __getattr__(name: str) -> object:
        raise absent("MNN.nn", name, ())

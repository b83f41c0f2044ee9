"""Networks as functions on Vars: modules loaded from files or written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from MNN.absent import absent
from MNN.nn.loaded import load_module_from_file
from MNN.nn.module import Module
from MNN.nn.runtime_config import RuntimeManager, create_runtime_manager

__all__ = ["Module", "RuntimeManager", "create_runtime_manager", "load_module_from_file"]

_LATER = {"EmptyModule", "batch_norm", "compress", "conv", "dropout", "dummy", "linear", "load_module", "loss"}

if not TYPE_CHECKING:  # names that are not here are errors for type checkers

    def __getattr__(name: str) -> object:
        raise absent("MNN.nn", name, _LATER)

"""The libraries that this room is built on, imported when they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType

from MNN.errors import MNNError

EXTRA = 'install it with: pip install "mnn-py[llm]"'


def tokenizers() -> ModuleType:
    """Hugging Face's ``tokenizers``. MNNError where it is not installed."""
    return _library("tokenizers", "read a tokenizer")


def jinja2() -> ModuleType:
    """``jinja2``. MNNError where it is not installed."""
    return _library("jinja2", "use a chat template")


def _library(name: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MNNError(f"the package {name} is needed to {purpose}; {EXTRA}") from error

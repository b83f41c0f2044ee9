"""The libraries that this room is built on, imported when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from MNN.errors import FormatError, MNNError

EXTRA = 'install it with: pip install "mnn-py[llm]"'


def tokenizers() -> ModuleType:
    """Hugging Face's ``tokenizers``. MNNError where it is not installed."""
    return _library("tokenizers", "read a tokenizer")


@contextmanager
def refused(what: str) -> Iterator[None]:
    """What ``tokenizers`` makes of a file within becomes a :class:`FormatError` that says ``what`` is wrong, where it
    fails: also where its Rust code panics, which Python sees as no ordinary exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise FormatError(f"{what}: {error}") from error


def jinja2() -> ModuleType:
    """``jinja2``. MNNError where it is not installed."""
    return _library("jinja2", "use a chat template")


def _library(name: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MNNError(f"the package {name} is needed to {purpose}; {EXTRA}") from error

"""Python's own parsers upon texts of files: what they warn of is not for the user of a model."""

from __future__ import annotations

import ast
import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Parsers warn of escapes in texts that Python does not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parse_module(text: str) -> ast.Module:
    """The syntax of statements. Raises what :func:`ast.parse` does."""
    with unwarned():
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The syntax of an expression. Raises what :func:`ast.parse` does."""
    with unwarned():
        return ast.parse(text, mode="eval").body

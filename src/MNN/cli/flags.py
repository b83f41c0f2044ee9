"""Switches as the official converter takes them: ``--fp16``, ``--fp16=true``, ``--keepInputFormat=0``."""

from __future__ import annotations

from collections.abc import Sequence

SWITCHES = ("--fp16", "--saveExternalData", "--keepInputFormat")
_ON = frozenset({"1", "true", "True"})
_OFF = frozenset({"0", "false", "False"})


def plain_flags(arguments: Sequence[str]) -> list[str]:
    """The arguments with values of switches written as ``--x`` or ``--no-x``; all others unchanged."""
    result: list[str] = []
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or name not in SWITCHES or value not in _ON | _OFF:
            result.append(argument)
        else:
            result.append(name if value in _ON else f"--no-{name[2:]}")
    return result

"""Switches as the official converter takes them: ``--fp16``, ``--fp16=true``, ``--fp16 1``, ``--keepInputFormat 0``."""

from __future__ import annotations

from collections.abc import Sequence

SWITCHES = (
    "--fp16", "--saveExternalData", "--keepInputFormat", "--weightQuantAsymmetric", "--transformerFuse",
    "--saveStaticModel", "--info", "--OP", "--dumpPass", "--hqq",
)  # fmt: skip
_ON = frozenset({"1", "true", "True", "TRUE"})
_OFF = frozenset({"0", "false", "False", "FALSE"})


def plain_flags(arguments: Sequence[str], apart: bool = False) -> list[str]:
    """The arguments with values of switches written as ``--x`` or ``--no-x``; all others unchanged.

    ``apart``: values may also be arguments of their own, as where there are no arguments without a name: then a
    file that is called ``1`` cannot be meant.
    """
    result: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, separator, value = argument.partition("=")
        if name in SWITCHES and apart and not separator and rest and rest[0] in _ON | _OFF:
            separator, value = "=", rest.pop(0)
        if not separator or name not in SWITCHES or value not in _ON | _OFF:
            result.append(argument)
        else:
            result.append(name if value in _ON else f"--no-{name[2:]}")
    return result

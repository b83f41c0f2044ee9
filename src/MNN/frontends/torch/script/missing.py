"""All operators of a TorchScript archive's code that there are not here, so that one message names them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from MNN.frontends.common.problems import Report
from MNN.frontends.torch.absent import advice
from MNN.frontends.torch.script.code import Code, dotted
from MNN.frontends.torch.script.operators import ADVICE, is_known, short_name


def report_missing(code: Code, report: Report) -> None:
    """Enters each function that uses such an operator. Branches that are never taken count, too: which are may hang on
    what is not known. Not so what packs quantised weights and takes them apart, which modules hold for their files."""
    for where, function in code.functions():
        for name in dict.fromkeys(_operators(function)):
            if not is_known(name) and not (name.startswith("ops.quantized.") and "pack" in name):
                short = short_name(name)
                what = advice(short, ADVICE)
                report.unknown_operator(where, short, "", f"{what} (some may be in branches never taken)")


def _operators(function: ast.FunctionDef) -> Iterator[str]:
    """Names of what is called out of torch's libraries, in the order of the text."""
    for node in ast.walk(function):
        name = dotted(node.func) if isinstance(node, ast.Call) else ""
        if name.startswith(("torch.", "ops.")):
            yield name


__all__ = ["report_missing"]

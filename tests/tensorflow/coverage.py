"""The page of TensorFlow's operators in the docs: ``python -m tests.tensorflow.coverage`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

from MNN.frontends.tensorflow.refused import advice
from MNN.frontends.tensorflow.registry import table
from tests.tensorflow.recorded import cases

HERE = Path(__file__).parent
RECORDED = HERE / "operators.zip"
PAGE = HERE.parents[1] / "docs" / "tensorflow-coverage.md"
OPERATORS = HERE / "all_operators.json"
"""Names of TensorFlow's operators that a graph may hold, training and input pipelines left out."""


def page() -> str:
    """The page in the docs."""
    known, compared = set(table.known()), {case.name.split("/")[0] for case in cases(RECORDED)}
    everything = json.loads(OPERATORS.read_text())
    missing = sorted(set(everything) - known)
    refused = [op for op in missing if advice(op)]
    lines = [
        "# TensorFlow operator coverage",
        "",
        "<!-- written by python -m tests.tensorflow.coverage; do not edit -->",
        "",
        f"**{len(known)} operators** are read from frozen graphs, SavedModels and checkpoints. Of these,",
        f"{len(compared)} are compared with TensorFlow's answers on random attributes, shapes and numbers",
        "(`tests/tensorflow/`); those in italics are read, and compared within whole models or not at all. What",
        "a graph uses beyond them is listed all at once, before anything is written.",
        "",
        "## Files",
        "",
        "`mnn convert`, `mnn run` and `MNN.load` take, without TensorFlow:",
        "",
        "- a frozen graph (`.pb`): its placeholders are the inputs, what no node uses the outputs;",
        "- a SavedModel, of TensorFlow 1 or 2 (its folder, or `saved_model.pb` in it): inputs and outputs have the",
        "  names of its signature, `serving_default` if there is one, or the one that `--signature` names; variables",
        "  are mapped from the checkpoint;",
        "- a checkpoint with its graph (`model.ckpt.meta`, the other files beside it).",
        "",
        "Files of Keras (`.keras`, `.h5`) are read [as well](keras-coverage.md). Images keep",
        "their channels last for users; inside, transpositions cancel. Loops and branches of both generations stay.",
        "Variables that a model changes while it runs are [states](states.md): `MNN.load` keeps them from run to run.",
        "Those that change in a branch or a loop alone are refused.",
        "Ragged and sparse tensors are what they are made of: rows and where they begin, numbers and their places.",
        "Derivatives that a function computes itself (`tf.GradientTape`) are read, those of filters excepted.",
        "Complex tensors (`tf.signal`) are two real ones inside; inputs and outputs cannot be complex.",
        "",
        "## Supported",
        "",
        ", ".join(op if op in compared else f"*{op}*" for op in sorted(known, key=lambda op: (op.lower(), op))) + ".",
        "",
        "## Refused, and what to do",
        "",
        "| advice | operators |",
        "| --- | --- |",
    ]
    groups: dict[str, list[str]] = {}
    for op in refused:
        groups.setdefault(advice(op), []).append(op)
    lines += [f"| {text} | {', '.join(sorted(ops))} |" for text, ops in sorted(groups.items())]
    others = [op for op in missing if not advice(op)]
    lines += ["", "## Not there yet", "", ", ".join(others) + ".", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")

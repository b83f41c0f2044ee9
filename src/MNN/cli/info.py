"""``mnn info``: what a model takes, gives and consists of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from MNN.cli.display.output import console
from MNN.cli.models import read
from MNN.cli.options import InputShapes, Prototxt, Signature, hints
from MNN.formatting import nbytes, plural
from MNN.ir.graph import Graph
from MNN.ir.quant import QuantizedArray
from MNN.runtime.session import TensorInfo

NAME = "info"
SHORT = "What a model takes, gives and consists of."
"""What the list of commands says."""
DEFAULT_DOMAIN = "ai.onnx"


def command(
    model: Annotated[Path, typer.Argument(help="A .mnn, .onnx or .tflite file.")],
    nodes: Annotated[bool, typer.Option("--nodes", help="List every operator with its inputs and outputs.")] = False,
    input_shapes: InputShapes = None,
    prototxt: Prototxt = None,
    signature: Signature = None,
) -> None:
    """Show a model's inputs, outputs, operators and weights."""
    graph = read(model, hints(input_shapes, prototxt, signature))
    screen = console()
    screen.print(f"[bold]{escape(str(model))}[/]  {nbytes(model.stat().st_size)}", highlight=False)
    for key in ("source", "producer", "version", "bizCode"):
        if graph.meta.get(key):
            screen.print(f"{key}: {graph.meta[key]}", highlight=False, markup=False)
    opsets = graph.meta.get("opsets")
    if isinstance(opsets, dict):
        screen.print(f"opsets: {', '.join(f'{d or DEFAULT_DOMAIN} {v}' for d, v in opsets.items())}", highlight=False)
    signatures = graph.meta.get("entries", graph.meta.get("signatures"))
    if isinstance(signatures, list) and signatures:
        taken = graph.meta.get("signature")
        named = (f"{name} (this one)" if name == taken and len(signatures) > 1 else name for name in signatures)
        screen.print(f"signatures: {', '.join(map(str, named))}", highlight=False, markup=False)
    for title, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        screen.print(f"[bold]{title}[/]")
        for v in values:
            screen.print(f"  {TensorInfo(v.name, v.dtype, v.shape)}", highlight=False, markup=False)
    screen.print(_operators(graph))
    weights = [v.data for v in graph.values() if v.data is not None]
    numbers = sum(w.values.size if isinstance(w, QuantizedArray) else w.size for w in weights)
    screen.print(
        f"{plural(len(graph.nodes), 'operator')}, {plural(len(weights), 'constant')} "
        f"holding {plural(numbers, 'number')}"
    )
    if nodes:
        for node in graph.nodes:
            inputs = ", ".join(v.name if v else "-" for v in node.inputs)
            line = f"{node.op} '{node.name}': {inputs} -> {', '.join(v.name for v in node.outputs)}"
            screen.print(line, highlight=False, markup=False, soft_wrap=True)


def _operators(graph: Graph) -> Table:
    counts: Counter[str] = Counter()

    def count(part: Graph) -> None:
        for node in part.nodes:
            counts[node.op] += 1
            for _, sub in node.subgraphs():
                count(sub)

    count(graph)
    table = Table("operator", "count")
    for op, number in counts.most_common():
        table.add_row(escape(op), str(number))
    return table

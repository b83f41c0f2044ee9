"""``mnn run``: one inference on files."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from MNN.cli.display.labels import chosen, read_labels, show_best, softmax
from MNN.cli.display.output import console, make_folder, progress_console
from MNN.cli.display.tables import add_row, number, show, words
from MNN.cli.inputs import Scaling, check_complete, load_inputs, random_feeds
from MNN.cli.models import open_model
from MNN.cli.options import Inputs, InputShapes, Mean, Norm, Prototxt, Shapes, Signature, Threads, hints
from MNN.cli.shapes import parse_shapes
from MNN.formatting import dims
from MNN.schema.files import replacing

NAME = "run"
SHORT = "Run a model on arrays or pictures."
"""What the list of commands says."""


def command(
    model: Annotated[Path, typer.Argument(help="A .mnn, .onnx or .tflite file.")],
    inputs: Inputs = None,
    shapes: Shapes = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for one .npy per output.")] = None,
    fetch: Annotated[list[str] | None, typer.Option("--fetch", metavar="NAME", help="Any tensor of the model.")] = None,
    threads: Threads = 1,
    precision: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    mean: Mean = None,
    norm: Norm = None,
    labels: Annotated[Path | None, typer.Option(help="Names of the classes, one a line: shows the best five.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--softmax", help="Show the best classes with probabilities instead of scores.")
    ] = False,
    random: Annotated[bool, typer.Option("--random", help="Fill missing inputs with seeded noise.")] = False,
    input_shapes: InputShapes = None,
    prototxt: Prototxt = None,
    signature: Signature = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep compiled kernels on disk.")] = False,
) -> None:
    """Run a model on arrays or pictures and show (or save) its outputs."""
    names = None if labels is None else read_labels(labels)
    session = open_model(model, threads, precision, not no_cache, hints(input_shapes, prototxt, signature)).session
    given = parse_shapes(shapes or [])
    feeds = load_inputs(session, inputs or [], given, Scaling(mean, norm))
    if random:
        feeds = {**random_feeds(session, given, feeds), **feeds}
    check_complete(session, feeds)
    if output is not None:
        make_folder(output)
    with progress_console().status("compiling and running"):
        results = plain(session.run(feeds, fetch or None))
    best = chosen(results, names, probabilities)
    if probabilities:
        best = {name: softmax(name, rows) for name, rows in best.items()}
    screen = console()
    columns = [words("output"), words("dtype", "what", 7), words("shape", "what", 12)]
    columns += [number(heading, "values") for heading in ("min", "mean", "max")]
    columns.append(words("largest at", "values"))
    for name, array in results.items():
        add_row(columns, escape(name), str(array.dtype), dims(array.shape), *_statistics(array))
    show(screen, columns, f"[bold]{escape(str(model))}[/]")
    for name, rows in best.items():
        screen.print()
        show_best(screen, name, rows, names, probabilities)
    if output is not None:
        for file, array in zip(_file_names(list(results)), results.values(), strict=True):
            _save(output / file, array)


def plain(results: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Outputs as arrays by name: of sequences ``name[0]``..., of maps ``name.key``, of a sequence of maps one array for
    each key; an optional without a value is left out."""
    found: dict[str, np.ndarray] = {}
    for name, value in results.items():
        if isinstance(value, dict):
            found |= plain({f"{name}.{key}": number for key, number in value.items()})
        elif (
            isinstance(value, list)
            and value
            and all(isinstance(v, dict) and v.keys() == value[0].keys() for v in value)
        ):
            found |= {f"{name}.{key}": _texts(np.array([v[key] for v in value])) for key in value[0]}
        elif isinstance(value, list):
            found |= plain({f"{name}[{i}]": item for i, item in enumerate(value)})
        elif value is not None:
            found[name] = _texts(np.asarray(value))
    return found


def _texts(array: np.ndarray) -> np.ndarray:
    """Strings of numpy's own kind, which a file of arrays can hold."""
    return array.astype(str) if array.dtype == object else array


def _file_names(names: list[str]) -> list[str]:
    """A file name for each tensor: what file systems may not like becomes ``_``, and no two are the same."""
    files: list[str] = []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:200] or "output"
        found = next(s for i in itertools.count() if (s := f"{stem}-{i}.npy" if i else f"{stem}.npy") not in files)
        files.append(found)
    return files


def _save(path: Path, array: np.ndarray) -> None:
    memory = io.BytesIO()
    np.save(memory, array, allow_pickle=False)
    with replacing(path) as file:
        file.write(memory.getvalue())


def _statistics(array: np.ndarray) -> list[str]:
    if array.size == 0 or array.dtype.kind not in "fiub":
        return ["-"] * 4
    wide = array.astype(np.float64)
    place = np.unravel_index(int(np.argmax(wide)), array.shape)
    return [f"{wide.min():.5g}", f"{wide.mean():.5g}", f"{wide.max():.5g}", escape(str([int(i) for i in place]))]

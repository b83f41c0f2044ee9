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
from rich.table import Table

from MNN.cli.inputs import check_complete, floats, load_inputs, parse_shapes, random_feeds
from MNN.cli.models import open_model
from MNN.cli.output import console, make_folder, progress_console
from MNN.schema.files import replacing
from MNN.words import dims

NAME = "run"


def command(
    model: Annotated[Path, typer.Argument(help="A .mnn or .onnx file.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="NAME=FILE (.npy, .npz, picture); the name may be left out."),
    ] = None,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224, for open sizes.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for one .npy per output.")] = None,
    fetch: Annotated[list[str] | None, typer.Option("--fetch", help="Any tensor of the model, by name.")] = None,
    threads: Annotated[int, typer.Option(help="Threads to use.")] = 1,
    precision: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    mean: Annotated[str, typer.Option(help="Subtracted from pictures, per channel.")] = "0",
    norm: Annotated[str, typer.Option(help="Multiplied with pictures, per channel.")] = "1/255",
    random: Annotated[bool, typer.Option("--random", help="Fill missing inputs with seeded noise.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep compiled kernels on disk.")] = False,
) -> None:
    """Run a model on arrays or pictures and show (or save) its outputs."""
    session = open_model(model, threads, precision, not no_cache).session
    given = parse_shapes(shapes or [])
    feeds = load_inputs(session, inputs or [], given, floats(mean), floats(norm))
    if random:
        feeds = {**random_feeds(session, given, feeds), **feeds}
    check_complete(session, feeds)
    if output is not None:
        make_folder(output)
    with progress_console().status("compiling and running"):
        results = plain(session.run(feeds, fetch or None))
    table = Table(title=str(model), title_justify="left")
    for column in ("output", "dtype", "shape", "min", "mean", "max", "largest at"):
        table.add_column(column)
    for name, array in results.items():
        table.add_row(escape(name), str(array.dtype), dims(array.shape), *_statistics(array))
    console().print(table)
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
    return [f"{wide.min():.5g}", f"{wide.mean():.5g}", f"{wide.max():.5g}", str([int(i) for i in place])]

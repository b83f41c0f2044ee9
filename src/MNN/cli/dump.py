"""``mnn dump``: a .mnn file as JSON, exactly."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from MNN.cli.display.output import progress_console
from MNN.cli.models import existing
from MNN.errors import MNNError
from MNN.frontends import kind_of
from MNN.schema import read_net
from MNN.schema.files import replacing
from MNN.schema.json_form import to_dict

NAME = "dump"
SHORT = "A .mnn file as JSON."
"""What the list of commands says."""


def command(
    model: Annotated[Path, typer.Argument(help="A .mnn file.")],
    target: Annotated[Path | None, typer.Argument(help="The JSON file to write; printed when left out.")] = None,
) -> None:
    """Write a .mnn file as JSON; `mnn convert` (or `mnnconvert -f JSON`) turns it back exactly."""
    if target is None:
        for text in json_texts(_content(model)):
            sys.stdout.write(text)
        sys.stdout.write("\n")
        return
    write_json(model, target)
    print(f"{model} -> {target}")


def write_json(model: Path, target: Path) -> None:
    """The JSON form of a .mnn file into ``target``. Raises where that is the model itself."""
    if target.is_file() and existing(model).samefile(target):
        raise MNNError(f"{target} is the model to show, which would be lost; write to another file")
    with progress_console().status(f"{model.name}: reading") as status:
        content = _content(model)
        status.update(f"{target.name}: writing")
        with replacing(target) as file:
            for text in json_texts(content):
                file.write(text.encode())
            file.write(b"\n")


def _content(model: Path) -> dict[str, Any]:
    kind = kind_of(existing(model))
    if kind != "mnn":
        steps = f"mnn convert {model} {model.stem}.mnn && mnn dump {model.stem}.mnn"
        advice = f"convert it first ({steps}), or see what is inside with mnn info {model}"
        raise MNNError(f"{model} is a model of kind {kind}; mnn dump shows .mnn files: {advice}")
    return to_dict(read_net(model))


def json_texts(value: Any, depth: int = 0) -> Iterator[str]:
    """JSON in pieces, one field a line; lists of numbers or texts stay on one line."""
    nested = isinstance(value, list) and any(isinstance(v, dict | list) for v in value)
    if not value or not (isinstance(value, dict) or nested):
        yield json.dumps(value, ensure_ascii=False, allow_nan=False)
        return
    first, last = "{}" if isinstance(value, dict) else "[]"
    items = value.items() if isinstance(value, dict) else ((None, v) for v in value)
    yield first
    for i, (key, item) in enumerate(items):
        yield f"{',' if i else ''}\n{' ' * (depth + 1)}"
        if key is not None:
            yield f"{json.dumps(key)}: "
        yield from json_texts(item, depth + 1)
    yield f"\n{' ' * depth}{last}"

"""``mnn dump``: a .mnn file as JSON, exactly."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from MNN.errors import MNNError
from MNN.schema import read_net, to_json
from MNN.schema.files import replacing

NAME = "dump"


def command(
    model: Annotated[Path, typer.Argument(help="A .mnn file.")],
    target: Annotated[Path | None, typer.Argument(help="The JSON file to write; printed when left out.")] = None,
) -> None:
    """Write a .mnn file as JSON; `mnn convert` (or `mnnconvert -f JSON`) turns it back exactly."""
    if not model.is_file():
        raise MNNError(f"no such file: {model}")
    content = to_json(read_net(model))
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    if target is None:
        sys.stdout.write(text + "\n")
        return
    with replacing(target) as file:
        file.write((text + "\n").encode())
    print(f"{model} -> {target}")

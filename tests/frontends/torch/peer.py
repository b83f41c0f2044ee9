"""Runs programs of tests in the environment that has torch; what they write is kept under a hash of their text."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from tests import zoo
from tests.export_env import REPOSITORY, REQUIREMENTS, python

_FAILED: dict[Path, str] = {}


def written(module: str, *arguments: str) -> Path:
    """The folder that ``python -m <module> FOLDER/cases *arguments`` filled; ``module`` is one of this folder, or a
    whole name."""
    name = module if "." in module else f"{__package__}.{module}"
    source = _source(name)
    digest = hashlib.sha256("\n".join([*REQUIREMENTS, module, *arguments]).encode() + source).hexdigest()[:16]
    folder = zoo.cache_folder() / f"torch-cases-{digest}"
    if folder in _FAILED:
        raise zoo.ZooError(_FAILED[folder])
    if not (folder / "done").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        interpreter = str(python(zoo.cache_folder()))
        command = [interpreter, "-m", name, str(folder / "cases"), *arguments]
        found = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
        if found.returncode:
            _FAILED[folder] = f"{' '.join(command)} failed:\n{found.stderr[-3000:]}"
            raise zoo.ZooError(_FAILED[folder])
        sys.stderr.write(found.stderr)
        (folder / "done").touch()
    return folder


def _source(name: str) -> bytes:
    """The text of a module, and of those that run where torch is that it is made with."""
    text = (REPOSITORY / f"{name.replace('.', '/')}.py").read_bytes()
    return text + b"".join(
        _source(found.decode()) for found in re.findall(rb"from (tests\.(?:frontends\.torch|train)\.\w+)", text)
    )

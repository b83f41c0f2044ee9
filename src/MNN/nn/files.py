"""Arrays by name in one file, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from MNN.errors import MNNError


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes numpy's .npz beside the place and moves it there: a full disk, or an interruption, leaves what was there.
    Raises :class:`MNNError` where it cannot be written."""
    target = Path(path)
    part = ""
    try:
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        _remove(part)
        raise MNNError(f"{target} cannot be written ({error}); what was there before is untouched") from error
    except BaseException:
        _remove(part)
        raise


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """What :func:`write_arrays` wrote. Raises :class:`MNNError` for what is no such file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise MNNError(f"{os.fspath(path)} is no file of arrays: {error}") from error


def _remove(part: str) -> None:
    if part and os.path.exists(part):
        os.unlink(part)


__all__ = ["read_arrays", "write_arrays"]

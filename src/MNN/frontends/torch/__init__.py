"""PyTorch's files: programs of ``torch.export`` (``.pt2``) and TorchScript (``.pt``), read without torch.

``aten`` is the table of ATen operators, one meaning each, that both kinds of files share; ``exported`` and ``script``
are the readers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from MNN.errors import FormatError
from MNN.frontends.torch.archive import Archive
from MNN.ir.graph import Graph

PARTS = (
    "data",
    "code",
    "constants",
    "version",
    "byteorder",
    ".data",
    "models",
    "archive_",
    "extra",
    "attributes",
    "serialized_",
    ".format",
)
"""How names of parts begin in PyTorch's archives, within their folder."""


def looks_like(head: bytes, size: int) -> bool:
    """Whether a file that begins so is a zip archive whose first part PyTorch would write."""
    if head[:4] != b"PK\3\4" or len(head) < 30:
        return False
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
    inner = name.split("/", 1)[-1]
    return inner.startswith(PARTS)


def load(source: str | os.PathLike[str] | bytes, inputs: Mapping[str, str] | None = None) -> Graph:
    """The graph of a ``.pt2`` or TorchScript file, given as a path or as the file's bytes. ``inputs``:
    shapes and values of a TorchScript program's inputs, as texts (:func:`~MNN.frontends.torch.given.from_texts`).

    Raises :class:`~MNN.errors.FormatError` for malformed files and for files of weights without a graph.
    """
    from MNN.frontends.torch import exported, script
    from MNN.frontends.torch.given import from_texts

    archive = Archive(source)
    if any(n.startswith(("models/", "serialized_exported_program")) for n in archive.names):
        return exported.load(source)
    if any(n.startswith("code/") for n in archive.names):
        return script.load(source, from_texts(inputs or {}))
    raise FormatError(
        f"{archive.name} holds weights without a graph (torch.save): load them into the network in PyTorch, and export "
        "that: torch.export.save(torch.export.export(model, inputs), 'model.pt2')"
    )


__all__ = ["load", "looks_like"]

"""Runs in the environment that has torch: the names of its core ATen operators, one a line.

``python -m tests.frontends.torch.core_operators OUT``
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import torch


@functools.cache
def core_operators() -> dict[str, Any]:
    """Torch's core operators by their names with overloads, in the order of these."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():  # dir(torch.ops.aten) has those alone that were asked for before
        library, name = schema.name.split("::")
        held = getattr(torch.ops.aten, name, None) if library == "aten" else None
        operator = getattr(held, schema.overload_name or "default", None)
        if torch.Tag.core in getattr(operator, "tags", ()):
            found[str(operator).removeprefix("aten.")] = operator
    return dict(sorted(found.items()))


def main() -> None:
    Path(sys.argv[1]).write_text("\n".join(core_operators()), encoding="utf-8")


if __name__ == "__main__":
    main()

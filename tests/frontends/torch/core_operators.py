"""Runs in the environment that has torch: the names of its core ATen operators, one a line.

``python -m tests.frontends.torch.core_operators OUT``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch


def main() -> None:
    names = []
    for packet in sorted(n for n in dir(torch.ops.aten) if not n.startswith("__")):
        held = getattr(torch.ops.aten, packet)
        for overload in getattr(held, "overloads", list)():
            operator = getattr(held, overload)
            if torch.Tag.core in operator.tags:
                names.append(str(operator).removeprefix("aten."))
    Path(sys.argv[1]).write_text("\n".join(names), encoding="utf-8")


if __name__ == "__main__":
    main()

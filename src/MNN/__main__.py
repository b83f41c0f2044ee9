"""``python -m MNN``: the ``mnn`` command."""

from __future__ import annotations

from MNN.cli.main import main

if __name__ == "__main__":
    main()

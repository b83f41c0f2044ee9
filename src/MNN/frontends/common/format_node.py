"""What a node of any format offers to its handler."""

from __future__ import annotations

from MNN.errors import UnsupportedError


class FormatNode:
    """``op`` and ``name`` as the file has them; they are in every error."""

    op: str
    name: str

    @property
    def where(self) -> str:
        return f"{self.op} '{self.name}'"

    def unsupported(self, what: str, advice: str = "") -> UnsupportedError:
        """The error for a form of this operator that cannot be honoured; raise it."""
        return UnsupportedError(f"{self.where}: {what} is not supported" + (f"; {advice}" if advice else ""))

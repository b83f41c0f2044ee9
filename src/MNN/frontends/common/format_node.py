"""What a node of any format offers to its handler."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Value


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


class OperandNode(FormatNode):
    """One whose operands are counted, and may be left out."""

    inputs: Sequence[Value | None]

    def input(self, index: int) -> Value:
        """A required operand. Raises :class:`FormatError` when it is left out."""
        value = self.optional(index)
        if value is None:
            raise FormatError(f"{self.where}: input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """An operand, or None when it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

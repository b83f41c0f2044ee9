"""Instructions: LLVM's name for each, the features it needs, and plain code for processors without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from MNN.backends.cpu.targets.instructions.capability import Capability

Plain = Callable[[str, int], str]
"""From a function's name and the width of its vectors to its text in LLVM IR."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One way in which a family of processors does something, for vectors of one width."""

    does: Capability
    bits: int
    """The width of the first operand; 0: of any, or of none."""
    text: str
    """LLVM's intrinsic (``llvm....``), or its conversion (``fptrunc``). Empty where kernels write plain IR, which
    becomes such an instruction."""
    needs: tuple[frozenset[str], ...]
    """Sets of features of which one is enough."""
    fixed: tuple[tuple[int, int], ...] = ()
    """Constant operands after the others: their bits and value; of 0 bits: the number as a value of the result's
    type."""
    order: tuple[int, ...] = ()
    """The places of the given operands in the instruction's order, where that is another one."""
    plain: Plain | None = None

    @property
    def is_conversion(self) -> bool:
        return bool(self.text) and not self.text.startswith("llvm.")

    def is_there(self, features: Collection[str]) -> bool:
        return any(need.issubset(features) for need in self.needs)

    @property
    def plain_name(self) -> str:
        """Of the function that stands in for it."""
        return f"plain.{self.text.removeprefix('llvm.')}"


def instruction(
    does: Capability,
    bits: int,
    text: str,
    *needs: str,
    fixed: Sequence[tuple[int, int]] = (),
    order: Sequence[int] = (),
    plain: Plain | None = None,
) -> Instruction:
    """``needs`` are features separated by spaces, one text for each set that is enough; ``{bits}`` in ``text`` is the
    width."""
    sets = tuple(frozenset(need.split()) for need in needs)
    return Instruction(does, bits, text.format(bits=bits), sets, tuple(fixed), tuple(order), plain)


__all__ = ["Instruction", "Plain", "instruction"]

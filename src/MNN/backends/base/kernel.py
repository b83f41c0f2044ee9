"""What a kernel is: a frozen description from which LLVM IR is generated.

Everything that a kernel's code is specialised on (element types, tile, fused bodies) is a field of a
:class:`KernelSpec`; extents, strides, offsets and pointers are arguments. Two equal specs are the same kernel.

Every kernel is one function ``void @kernel(ptr args, i64 begin, i64 end, ptr scratch)``:

- ``args`` points to one i64 per name of :meth:`KernelSpec.slots`; pointers are absolute addresses, strides and
  offsets count elements of the operand's own dtype;
- it handles the blocks ``begin <= b < end`` of its own block index space, so that any split of the blocks over
  workers gives the same result;
- ``scratch`` is memory of the calling worker, 64-byte aligned, at least :meth:`KernelSpec.scratch` bytes.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

from MNN.ir.scalar import Body

Argument = Union[int, NDArray[np.generic]]  # noqa: UP007  evaluated at run time on Python 3.10
"""The value of a slot: a number, or the contents of a constant where the slot is an address."""
Arguments = Mapping[str, Argument]
ENTRY = "kernel"
"""Name of the function that every generated module defines."""
Spec = TypeVar("Spec", bound="KernelSpec")


class Kind(enum.Enum):
    """How a command is carried out."""

    BLOCKS = "blocks"
    """Blocks that workers of the CPU share."""
    LAUNCH = "launch"
    """A launch on a device, whose grid is the command's blocks."""
    HOST = "host call"
    """A Python function on arrays of the host."""


@dataclasses.dataclass(frozen=True)
class KernelSpec(abc.ABC):
    """Base of all kernel descriptions; subclasses are frozen dataclasses of hashable fields."""

    kind: ClassVar[Kind] = Kind.BLOCKS
    """How commands with this kernel are carried out."""
    shaped: ClassVar[bool] = False
    """The generator's code needs no pass over the IR: code generation alone gives the same machine code sooner."""

    @classmethod
    def of(cls: type[Spec], *fields: Hashable, **named: Hashable) -> Spec:
        """The kernel with these fields: one object for equal ones, made and checked once."""
        found: Spec = _made(cls, *fields, **named)
        return found

    @abc.abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Names of the i64 arguments, in order."""

    @abc.abstractmethod
    def emit(self, target: Any) -> str:
        """A textual LLVM IR module that defines ``@kernel`` for this target."""

    def scratch(self, target: Any, args: Mapping[str, int]) -> int:
        """Bytes of per-worker scratch that a call with these argument values (by slot name) needs."""
        del target, args
        return 0

    @property
    def numbers_decide(self) -> bool:
        """Whether the numbers that it is given say what of its scratch it writes and reads, not its arguments alone."""
        return False

    def arithmetic(self, target: Any) -> str:
        """The multiply-adds that set its peak, as :func:`MNN.backends.cpu.measuring.probe.products` names them. For
        profiles only."""
        del target
        return "f32"

    def traffic(self, args: Arguments) -> dict[str, int] | None:
        """Bytes of each operand, by slot, that a call over all blocks reads or writes, every byte once; None: unknown.

        ``args`` are the slots' values, constants in place of their addresses. For profiles only.
        """
        del args
        return None

    def in_place(self, args: Arguments) -> tuple[tuple[str, str], ...]:
        """Pairs (result, operand) of slots that may be the same memory in a call with these arguments.

        Both hold as many elements of one size at the same offsets, each is written once, and is read for nothing but
        the element of the result that lies there, by the block that writes it and before it does.
        """
        del args
        return ()

    def key(self) -> str:
        """A stable text that is equal exactly for equal specs: the class and every field."""
        fields = ",".join(f"{f.name}={_text(getattr(self, f.name))}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({fields})"


@functools.lru_cache(maxsize=4096)
def _made(kind: type[KernelSpec], *fields: Hashable, **named: Hashable) -> Any:
    return kind(*fields, **named)


def _text(value: object) -> str:
    if isinstance(value, Body):
        return value.key()
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "(" + ",".join(map(_text, value)) + ")"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    raise TypeError(f"a kernel spec cannot hold a {type(value).__name__}")

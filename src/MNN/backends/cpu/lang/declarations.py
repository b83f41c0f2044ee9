"""What a module of the kernel language holds beside its functions: what it declares, raw text, metadata of loops."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Collection, Iterator, Sequence

from MNN.backends.cpu.lang.types import Type
from MNN.backends.cpu.targets.instructions.base import Instruction
from MNN.backends.cpu.targets.instructions.capability import Capability
from MNN.backends.cpu.targets.instructions.table import find

_CHECKED: contextvars.ContextVar[bool] = contextvars.ContextVar("checked", default=False)


@contextlib.contextmanager
def checked_build() -> Iterator[None]:
    """Within this context new modules are checked builds: every access is tested against the allowed ranges."""
    token = _CHECKED.set(True)
    try:
        yield
    finally:
        _CHECKED.reset(token)


def is_checked() -> bool:
    """Whether modules made now are checked builds (part of any cache key)."""
    return _CHECKED.get()


class Declarations:
    """A module as the functions in it see it: what they may use, and what they leave in it for that."""

    def __init__(
        self,
        vector_bits: int = 256,
        has_fma: bool = True,
        features: Collection[str] = (),
        emulated: Collection[str] = (),
    ) -> None:
        self.vector_bits, self.has_fma, self.features = vector_bits, has_fma, frozenset(features)
        self._known = self.features.union(emulated)
        self.checked = is_checked()
        self.check_count = 0
        self._defined: set[str] = set()
        self._declared: dict[str, str] = {}
        self._raw: list[str] = []
        self._loops: list[int] = []
        self._likely = False

    def declare(self, ret: Type, name: str, params: Sequence[Type]) -> None:
        """Declares an external function or intrinsic once; nothing for functions of this module."""
        if name not in self._declared and name not in self._defined:
            self._declared[name] = f"declare {ret.text} @{name}({', '.join([p.text for p in params])})"

    def can(self, does: Capability, bits: int) -> bool:
        """Whether the processor itself does something with vectors of ``bits``."""
        return find(self.features, does, bits) is not None

    def instruction(self, does: Capability, bits: int) -> Instruction:
        """How something is done, be it emulated: its plain code is then part of the module."""
        found = find(self.features, does, bits)
        if found is not None:
            return found
        found = find(self._known, does, bits)
        if found is None:
            raise ValueError(f"no instruction of {bits} bits for this: {does.name}")
        if found.plain is None:
            raise ValueError(f"{found.text} has no plain code")
        if found.plain_name not in self._defined:
            self.define(found.plain_name, found.plain(found.plain_name, bits))
        return found

    def emulates(self, does: Capability) -> bool:
        """Whether the processor that the code is made for does this with its vectors, and the one that runs it not."""
        bits = self.vector_bits
        return find(self.features, does, bits) is None and find(self._known, does, bits) is not None

    def callee(self, found: Instruction) -> str:
        """The name of an instruction's function: LLVM's intrinsic, or the plain code."""
        return found.plain_name if found.plain_name in self._defined else found.text

    def defines(self, name: str) -> bool:
        """Whether a function of this name has been added."""
        return name in self._defined

    def define(self, name: str, text: str) -> None:
        """Appends a function of this name as text."""
        self._raw.append(text)
        self._defined.add(name)

    def add(self, text: str) -> None:
        """Appends raw top-level text, such as a constant table."""
        self._raw.append(text)

    def loop_metadata(self, unroll: int) -> int:
        """A fresh loop identity: never vectorised by LLVM, unrolled as asked (1 never, 0 as LLVM likes)."""
        self._loops.append(unroll)
        return 10 + 3 * len(self._loops)

    def likely_metadata(self) -> int:
        self._likely = True
        return 0

    def metadata(self) -> list[str]:
        """The text of all metadata that was asked for."""
        parts = ['!0 = !{!"branch_weights", i32 2000, i32 1}'] if self._likely else []
        for i, unroll in enumerate(self._loops, 1):
            n = 10 + 3 * i
            how = {1: 'llvm.loop.unroll.disable"', 0: 'llvm.loop.mustprogress"'}.get(
                unroll, f'llvm.loop.unroll.count", i32 {unroll}'
            )
            parts.append(f'!{n} = distinct !{{!{n}, !{n + 1}, !{n + 2}}}\n!{n + 1} = !{{!"{how}}}')
            parts.append(f'!{n + 2} = !{{!"llvm.loop.vectorize.enable", i1 false}}')
        return parts


__all__ = ["Declarations", "checked_build", "is_checked"]

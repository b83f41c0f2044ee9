"""The text of one function while it is written: lines, blocks and variables."""

from __future__ import annotations

from MNN.backends.cpu.typed.values import Kind, Value, llvm


class Code:
    """Lines of a function. Variables are places on the stack, which LLVM's passes turn into registers."""

    def __init__(self) -> None:
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.block = "begin"
        self.ended = False
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}.{self._count}"  # no parameter is called so

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def emit(self, kind: Kind, text: str) -> Value:
        """An instruction, and what it gives."""
        name = f"%{self.fresh()}"
        self.line(f"{name} = {text}")
        return Value(name, kind)

    def register(self, text: str) -> str:
        """An instruction whose result is of no kind that values have."""
        return self.emit(int, text).text

    def place(self, kind: Kind) -> str:
        """Room for a variable."""
        return self.room(llvm(kind), 1, 8)

    def room(self, memory: str, count: int, alignment: int) -> str:
        name = f"%{self.fresh('r')}"
        self.entry.append(f"  {name} = alloca [{count} x {memory}], align {alignment}")
        return name

    # blocks

    def begin(self, label: str) -> None:
        """What follows is the block of this name."""
        self.lines.append(f"{label}:")
        self.block, self.ended = label, False

    def go(self, label: str) -> None:
        """To a block, unless the block at hand has ended."""
        if not self.ended:
            self.line(f"br label %{label}")
        self.ended = True

    def fork(self, condition: Value, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.text}, label %{then}, label %{otherwise}")
        self.ended = True

    def joined(self, kind: Kind, ways: list[tuple[Value, str]]) -> Value:
        """One of some values, by the block that it comes from."""
        return self.emit(kind, f"phi {llvm(kind)} {', '.join(f'[{v.text}, %{block}]' for v, block in ways)}")


__all__ = ["Code"]

"""Commands that a run leaves out when a condition says that nobody needs what they compute."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Buffer, Located, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.compiler.conditions import Condition, conditions
from MNN.compiler.fuse import Group
from MNN.compiler.usage import VIEWS
from MNN.ir.prims import Prim, Tensor


class Branches:
    """Notes, while groups are emitted in order, whose commands have a condition that is known before they run."""

    def __init__(self, e: Emitter, prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self._e = e
        self._conditions = conditions(prims, outputs)
        self._known = set(inputs)
        self._found: dict[int, Condition] = {}
        self._results: set[Buffer] = set()

    def emitted(self, groups: Sequence[Group], first: int) -> None:
        """The commands from number ``first`` on are those of ``groups``."""
        if not self._conditions:
            return
        prims = [prim for g in groups for prim in (*g.prims, *(() if g.anchor is None else (g.anchor,)))]
        found = {self._conditions.get(id(prim)) for prim in prims}
        condition = found.pop() if len(found) == 1 else None
        results = [t for prim in prims for t in prim.outputs]
        if condition is not None and _source(condition[0]) in self._known:
            self._found |= dict.fromkeys(range(first, len(self._e.commands)), condition)
            self._results.update(self._e.place(t).buffer for t in results if self._e.is_placed(t))
        self._known.update(results)

    def mark(self, inputs: Sequence[Located], outputs: Sequence[Located]) -> None:
        """Gives commands their conditions; called when no more are copied, and it is known where ``inputs`` and
        ``outputs`` lie."""
        commands, found = self._e.commands, self._found
        touching: dict[Buffer, list[int]] = {}
        for number, command in enumerate(commands if found else ()):
            for buffer in command.buffers():
                touching.setdefault(buffer, []).append(number)
        given = {t.place.buffer for t in inputs}  # which no command writes
        shared = [
            numbers  # such as operands in another layout, which were made for the first of those that read them
            for buffer, numbers in touching.items()
            if buffer not in self._results and buffer not in given and numbers[0] in found
        ]
        for output in outputs:  # a view of what has no condition, moved for somebody who has one
            for number in touching.get(output.place.buffer, ()):
                found.pop(number, None)
        while True:
            wrong = [n for numbers in shared if len({found.get(n) for n in numbers}) > 1 for n in numbers if n in found]
            if not wrong:
                break
            for number in wrong:
                found.pop(number, None)
        for number, (tensor, value) in found.items():
            place = self._e.place(tensor)
            if place.buffer.const is None and not place.buffer.lent:
                commands[number].only_when(Ref(place.buffer, place.offset), value)


def _source(tensor: Tensor) -> Tensor:
    """What a tensor of one number is a view of."""
    while isinstance(tensor.producer, VIEWS):
        tensor = tensor.producer.inputs[0]
    return tensor

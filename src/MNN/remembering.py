"""Sessions of models whose operators keep something from run to run: what PyMNN's interfaces run them with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from MNN.runtime.session import Session
from MNN.stateful import StatefulModel

if TYPE_CHECKING:
    from MNN.backends.base.program import Program
    from MNN.ir.dtype import DType
    from MNN.runtime.executor import Plan


class RememberingSession(Session):
    """A session that goes on from its last run; ``memory.state`` can be reset or rolled back."""

    def __init__(self, session: Session) -> None:
        """``session``: of the model whose states are inputs and outputs."""
        super().__init__(session._open, session.config, session._stored)
        self.memory = StatefulModel(session)
        """The model with its state."""
        self.inputs, self.outputs = self.memory.inputs, self.memory.outputs

    def run(self, feeds: Any, fetch: Any = None) -> Any:
        """One inference, which goes on from the last; as :meth:`Session.run` has it, of outputs alone."""
        if isinstance(fetch, Mapping):
            return list(self.memory.run(fetch, feeds).values())
        return self.memory.run(feeds, None if fetch is None else self._names(fetch))

    def plan(self, feeds: Mapping[str, Any]) -> Plan:
        """See :meth:`Session.plan`."""
        return self.memory.session.plan(self.memory.all_inputs(feeds))

    def program(self, feeds: Mapping[str, Any]) -> Program:
        """See :meth:`Session.program`."""
        return self.memory.session.program(self.memory.all_inputs(feeds))

    def result_types(self, feeds: Mapping[str, Any]) -> list[tuple[DType, tuple[int, ...]]] | None:
        """See :meth:`Session.result_types`."""
        session = self.memory.session
        types = session.result_types(self.memory.all_inputs(feeds))
        if types is None:
            return None
        return [kind for name, kind in zip(session.outputs, types, strict=True) if name in self.outputs]

    def another(self) -> Session:
        """See :meth:`Session.another`: with nothing to go on from."""
        return RememberingSession(self.memory.session.another())


__all__ = ["RememberingSession"]

"""Walking a branch or the body of a loop: what it does is noted, and taken back."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import Complex
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.script.journal import (
    NOTHING,
    Container,
    Journal,
    note_attribute,
    note_container,
    refill,
)
from MNN.frontends.torch.script.open_lists import Run
from MNN.frontends.torch.script.optional import Maybe
from MNN.frontends.torch.unpickle import ScriptObject
from MNN.ir.graph import Graph, Value


class Walker(Protocol):
    """Who walks statements."""

    ctx: TorchBuilder

    def walk(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None: ...
    def evaluate(self, node: ast.expr, scope: dict[str, Any]) -> Any: ...
    def as_truth(self, found: Any) -> Any: ...


class Returned(Exception):  # noqa: N818 - no error: it carries a result out of nested blocks
    """A function's result."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Outcome:
    """A branch walked: its graph, and what it left behind. ``raises``: it ends in an exception."""

    ctx: TorchBuilder
    scope: dict[str, Any]
    attributes: dict[tuple[int, str], tuple[ScriptObject, Any]] = field(default_factory=dict)
    containers: dict[int, tuple[Container, Container]] = field(default_factory=dict)
    """Lists and dictionaries that it changed, and copies of what they held at its end."""
    tensors: dict[Variable, Value] = field(default_factory=dict)
    """Variables from outside that it wrote, and their values at its end."""
    raises: str = ""
    returns: Returned | None = None
    """What it leaves the function with."""
    _values: dict[Variable, Value] = field(default_factory=dict)

    def read(self, variable: Variable) -> Value:
        """The value of a variable at the end of the branch."""
        found = self._values.get(variable)
        return variable.read(self.ctx) if found is None else found

    def contents(self, container: Any) -> Any:
        """What a list, tuple or dictionary held at the end of the branch."""
        return self.containers.get(id(container), (container, container))[1]

    def keep(self, journal: Journal) -> None:
        """Notes how things are now, before they are taken back."""
        for key, (owner, _) in journal.attributes.items():
            self.attributes[key] = (owner, owner.state.get(key[1], NOTHING))
        self.containers = {key: (held, held.copy()) for key, (held, _) in journal.containers.items()}
        if self.ctx.written:
            left = [
                self.returns and self.returns.value,
                *self.scope.values(),
                *(value for _, value in self.attributes.values()),
            ]
            self._values = {
                v: v.read(self.ctx) for v in variables_in([*left, *(h for h, _ in self.containers.values())])
            }


def variables_in(things: Iterable[Any]) -> Iterator[Variable]:
    """All variables in lists, tuples and dictionaries."""
    for thing in reachable(things):
        if isinstance(thing, Variable):
            yield thing


def reachable(things: Iterable[Any]) -> Iterator[Any]:
    """Things, and what is in lists, tuples, dictionaries and attributes of objects among them, each once."""
    seen: set[int] = set()
    stack = list(things)
    while stack:
        thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, ScriptObject):
            thing = thing.state
        elif isinstance(thing, Complex):
            stack.append(thing.pairs)
        elif isinstance(thing, Run):
            stack.append(thing.items)
        elif isinstance(thing, Maybe):
            stack += [thing.present, thing.value]
        if isinstance(thing, (list, tuple)):
            stack += thing
        elif isinstance(thing, dict):
            stack += thing.values()


def walk_aside(
    walker: Walker, body: Sequence[ast.stmt], scope: dict[str, Any], inputs: Iterable[Value] = (),
    returning: bool = False,
) -> Outcome:  # fmt: skip
    """Walks a branch into a graph of its own, and takes back what it changed. ``returning``: it may leave the
    function."""
    outer, journal = walker.ctx, Journal()
    ctx = TorchBuilder(outer.model, Graph(name="body", inputs=list(inputs)), outer)
    ctx.where, ctx.journal, ctx.written = outer.where, journal, {}
    made = Outcome(ctx, dict(scope))
    first = Variable.count()
    walker.ctx = ctx
    try:
        walker.walk(body, made.scope)
    except RaisedError as error:
        made.raises = str(error) or "an exception"
    except Returned as found:
        if not returning:
            raise
        made.returns = found
    finally:
        walker.ctx = outer
    made.keep(journal)
    for held, before in journal.containers.values():
        refill(held, before)
        note_container(outer, held)
    for (_, name), (owner, before) in journal.attributes.items():
        if before is NOTHING:
            owner.state.pop(name, None)
        else:
            owner.state[name] = before
        note_attribute(outer, owner, name)
    for variable, value in ctx.written.items():
        assert isinstance(variable, Variable)
        if variable.born < first:  # what began within the branch is nobody else's
            made.tensors[variable] = variable.read(ctx)
            variable.restore(value)
            outer.note_written(variable, value)
    return made

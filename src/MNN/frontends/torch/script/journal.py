"""What branches and loops change while they are walked, noted so that it can be taken back and compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from MNN.errors import UnsupportedError
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.unpickle import ScriptObject

NOTHING = object()
"""An attribute or a name that is not there."""
Container = list[Any] | dict[Any, Any]


@dataclass(frozen=True)
class Unmerged:
    """What a name is, or what a container holds, after branches that leave it different things."""

    reason: str


@dataclass
class Journal:
    """What is changed, with what was there before."""

    attributes: dict[tuple[int, str], tuple[ScriptObject, Any]] = field(default_factory=dict)
    containers: dict[int, tuple[Container, Container]] = field(default_factory=dict)
    """Lists and dictionaries, and copies of what they held."""


def note_attribute(ctx: TorchBuilder, owner: ScriptObject, name: str) -> None:
    """Tells the branch being walked that an attribute is about to be set."""
    if isinstance(ctx.journal, Journal):
        before = owner.state.get(name, NOTHING) if isinstance(owner.state, dict) else NOTHING
        ctx.journal.attributes.setdefault((id(owner), name), (owner, before))


def note_container(ctx: TorchBuilder, container: Any) -> None:
    """Tells the branch being walked that a list or dictionary is about to change."""
    if isinstance(ctx.journal, Journal) and isinstance(container, (list, dict)):
        ctx.journal.containers.setdefault(id(container), (container, container.copy()))


def refill(container: Container, contents: Container) -> None:
    """Gives a list or dictionary other contents; it stays the same object."""
    held = contents.copy()
    container.clear()
    if isinstance(container, dict):
        container.update(held)
    else:
        container.extend(held)


def check_merged(containers: Iterable[Any]) -> None:
    """Raises :class:`UnsupportedError` for lists and dictionaries that hold nothing certain after branches."""
    for container in containers:
        if isinstance(container, (list, dict)):
            for item in container.values() if isinstance(container, dict) else container:
                if isinstance(item, Unmerged):
                    raise UnsupportedError(f"a list or dictionary that is {item.reason} is not supported")

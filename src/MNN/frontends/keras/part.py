"""A layer of a file and the layers inside of it, as configured, and the numbers of their variables.

A ``.keras`` archive has them by path (``layers/dense/vars/0``), where layers are called after their classes; an ``.h5``
file has one list for each layer of the model, what is trained first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.registry import Config, table

MAX_DEPTH = 24
"""How deep layers may lie within layers."""
_OTHERWISE = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Classes that are saved under another name than their own."""
_UNTRAINED = {"moving_mean", "moving_variance", "mean", "variance", "count", "vector_u"}


@dataclass
class Part:
    """``kind``: the class's name; ``attribute``: where it lies in the layer around it; ``inside``: layers within."""

    kind: str
    name: str
    config: Config
    attribute: str = ""
    variables: Sequence[str] = ()
    inside: list[Part] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.kind} '{self.name}'"

    def child(self, attribute: str) -> Part:
        """The layer within that is called so. Raises :class:`FormatError` where there is none."""
        found = next((p for p in self.inside if p.attribute == attribute), None)
        if found is None:
            raise FormatError(f"{self.where}: it has no '{attribute}'")
        return found

    @property
    def known(self) -> bool:
        """Whether this layer and all in it can be read."""
        return table.find(self.kind) is not None and all(part.known for part in self.inside)

    @property
    def trained(self) -> bool:
        return bool(self.config.get("trainable", True))

    def slots(self) -> Iterator[tuple[Part, str]]:
        """All variables, in the order of their making."""
        yield from ((self, name) for name in self.variables)
        for part in self.inside:
            yield from part.slots()

    def _of(self, trained: bool) -> Iterator[tuple[Part, str]]:
        if not self.trained:
            if not trained:
                yield from self.slots()
            return
        yield from ((self, name) for name in self.variables if (name not in _UNTRAINED) == trained)
        for part in self.inside:
            yield from part._of(trained)

    def fill_from_list(self, arrays: Sequence[np.ndarray]) -> None:
        """Gives all variables their numbers from a list as ``.h5`` files have it."""
        slots = [*self._of(True), *self._of(False)]
        if len(slots) != len(arrays):
            names = ", ".join(name for _, name in slots[:12]) or "none"
            raise FormatError(f"{self.where}: {len(arrays)} variables are stored, expected {len(slots)} ({names})")
        for (part, name), array in zip(slots, arrays, strict=True):
            part.arrays[name] = array


def described(spec: object) -> tuple[str, Mapping[str, Any]]:
    """The class and the configuration of an object as Keras writes them; operations are called ``ops.Name``."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("class_name"), str):
        raise FormatError(f"a layer is described by {spec!r:.100}; is the file damaged?")
    config = spec.get("config")
    module = str(spec.get("module") or "")
    name = spec["class_name"].rpartition(">")[2]
    if module.startswith(("keras.src.ops", "keras.ops")) or module == "keras.src.activations":
        name = f"ops.{name}"
    elif "module" not in spec and table.find(f"ops.{name}") is not None:
        # ``.h5`` files do not say which of those that are called alike is meant; layers can be trained
        layer = table.find(name) is not None and isinstance(config, Mapping) and "trainable" in config
        name = name if layer else f"ops.{name}"
    return name, config if isinstance(config, Mapping) else {"layers": config} if isinstance(config, list) else {}


def part_of(spec: object, attribute: str = "", depth: int = 0) -> Part:
    """A layer with all that is in it. Raises :class:`FormatError` for what is described wrongly, or nested without
    end; classes that are not known are told of when they are used."""
    kind, config = described(spec)
    if depth > MAX_DEPTH:
        raise FormatError(f"{kind}: layers lie {MAX_DEPTH} deep within each other; is the file damaged?")
    assert isinstance(spec, Mapping)
    name = str(spec.get("name") or config.get("name") or kind)
    part = Part(kind, name, config, attribute)
    known = table.find(kind)
    if known is not None:
        try:
            part.variables = list(known.variables(config))
            inside = list(known.parts(config))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"{part.where}: its configuration cannot be read ({error!r:.200})") from error
        part.inside = [part_of(inner, key, depth + 1) for key, inner in inside]
    return part


def snake_case(name: str) -> str:
    """A class's name as Keras spells it in paths: ``Conv2DTranspose`` is ``conv2d_transpose``."""
    name = re.sub(r"\W+", "", _OTHERWISE.get(name, name))
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def numbered(specs: Sequence[Config], room: str) -> list[tuple[str, Config]]:
    """Layers in a list with their paths: each is called after its class, the second one ``dense_1``."""
    counts: dict[str, int] = {}
    found = []
    for spec in specs:
        kind, _ = described(spec)
        stem = snake_case(kind)
        count = counts.get(stem, 0)
        if not kind.startswith("ops."):
            counts[stem] = count + 1
        found.append((f"{room}/{stem}_{count}" if count else f"{room}/{stem}", spec))
    return found

"""A layer of a file and the layers inside of it, as configured, and the numbers of their variables.

A ``.keras`` archive has them by path (``layers/dense/vars/0``), where layers are called after their classes; an ``.h5``
file has one list for each layer of the model, what is trained first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.registry import Config, table

MAX_DEPTH = 24
"""How deep layers may lie within layers."""
CUDNN = "CuDNN"
"""What layers for cuDNN are called before their usual names, and what says so of the cell that is made of one."""
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

    @property
    def quantized(self) -> bool:
        """Whether its numbers are kept as integers with scales, which are not trained."""
        return any(name.endswith("_scale") for name in self.variables)

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
        fixed = {name for name in self.variables if name != "bias"} if self.quantized else _UNTRAINED
        yield from ((self, name) for name in self.variables if (name not in fixed) == trained)
        for part in self.inside:
            yield from part._of(trained)

    def fill_from_list(self, arrays: Sequence[np.ndarray]) -> None:
        """Gives all variables their numbers from a list as ``.h5`` files have it."""
        slots = [*self._of(True), *self._of(False)]
        if len(slots) != len(arrays):
            slots = self._once(slots)
        if len(slots) != len(arrays):
            names = ", ".join(name for _, name in slots[:12]) or "none"
            more = "; save a model with LoRA as .keras, which holds it added up" if self.config.get("lora_rank") else ""
            raise FormatError(
                f"{self.where}: {len(arrays)} variables are stored, expected {len(slots)} ({names}){more}"
            )
        for (part, name), array in zip(slots, arrays, strict=True):
            part.arrays[name] = array
        self.lend()

    def _once(self, slots: Sequence[tuple[Part, str]]) -> list[tuple[Part, str]]:
        """Slots without those of layers that have come before: a layer in two models is in both as a whole."""
        seen: set[str] = set()
        again: set[int] = set()

        def walk(part: Part, inside: bool) -> None:
            inside = inside or part.same in seen
            if inside:
                again.add(id(part))
            else:
                seen.add(part.same)
            for inner in part.inside:
                walk(inner, inside)

        for part in self.inside:
            walk(part, False)
        return [(part, name) for part, name in slots if id(part) not in again]

    @cached_property
    def same(self) -> str:
        """What is equal for two places that one layer is used at: names are given once in a program."""
        return json.dumps([self.kind, self.name, _plain(self.config)], sort_keys=True, default=str)

    @property
    def full(self) -> bool:
        """Whether it has variables, and the numbers of them all."""
        slots = list(self.slots())
        return bool(slots) and all(name in part.arrays for part, name in slots)

    def lend(self) -> None:
        """A layer that is used in two models has its numbers in the file once: the other place is given them."""
        owners: dict[str, Part] = {}
        bare: list[Part] = []
        pending = [self]
        while pending:
            part = pending.pop()
            pending += part.inside
            if part.full:
                owners.setdefault(part.same, part)
            elif not any(name in p.arrays for p, name in part.slots()):
                bare.append(part)
        for part in bare:
            owner = owners.get(part.same)
            if owner is not None:
                for (mine, name), (theirs, _) in zip(part.slots(), owner.slots(), strict=True):
                    mine.arrays[name] = theirs.arrays[name]


def _plain(tree: Any) -> Any:
    """A configuration without what tells one writing of an object from another."""
    if isinstance(tree, Mapping):
        return {str(k): _plain(v) for k, v in tree.items() if k not in ("shared_object_id", "build_config")}
    return [_plain(v) for v in tree] if isinstance(tree, list) else tree


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

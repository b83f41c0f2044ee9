"""What a configuration says: keys of a TOML file, each with what it is by default."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from MNN.errors import MNNError
from MNN.nn.settings import seed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop", "lion")
SCHEDULES = ("cosine", "linear", "constant")
PARTS = ("all", "head")
_POSITIVE = ("epochs", "batch", "rate", "temperature", "width")
_PLACES = ("output", "data", "validation", "model", "teacher")


@dataclass(frozen=True)
class Settings:
    """A training. Paths are those in the file, from its folder on. What each key means stands in docs/mnn-train.md."""

    data: Path
    output: Path
    validation: Path | float = 0.2
    model: Path | None = None
    train: str = "all"
    features: str = ""
    teacher: Path | None = None
    temperature: float = 4.0
    share: float = 0.7
    size: tuple[int, int] | None = None
    channels: int | None = None
    mean: tuple[float, ...] = (0.0,)
    norm: tuple[float, ...] = (1 / 255,)
    flip: bool = False
    crop: bool = False
    width: int = 24
    dropout: float = 0.2
    epochs: int = 10
    batch: int = 32
    optimizer: str = "adam"
    rate: float = 1e-3
    schedule: str = "cosine"
    weight_decay: float = 0.0
    patience: int = 0
    seed: int = 0
    threads: int = 0
    precision: str = "high"

    @property
    def beside(self) -> dict[str, Path]:
        """The files that are written beside the model: the names of the classes, the plot, the checkpoint."""
        stem = self.output.with_suffix("")
        return {kind: stem.with_name(stem.name + end) for kind, end in ENDS.items()}

    def deciding(self) -> dict[str, object]:
        """What the numbers of training depend on, for checkpoints to be compared by; not how long it goes on, where no
        rate depends on that."""
        apart = {"output", "threads", "patience"} | ({"epochs"} if self.schedule == "constant" else set())
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        return {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}


ENDS = {"labels": ".txt", "plot": ".svg", "checkpoint": ".checkpoint.npz"}


def read(path: Path) -> Settings:
    """The settings in a TOML file. Raises :class:`MNNError`, with the file and the key, for what is none."""
    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise MNNError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MNNError(f"{path} is no TOML file: {error}") from error
    return settings_of(given, path)


def settings_of(given: Mapping[str, Any], path: Path) -> Settings:
    """Settings from keys and values; ``path``: the file that they are in, whose folder paths begin at."""
    kinds = {f.name: f for f in fields(Settings)}
    for name in given:
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, 1)
            raise MNNError(f"{path}: there is no key '{name}'{f'; {near[0]} is one' if near else ''}")
    missing = [n for n, f in kinds.items() if f.default is MISSING and n not in given]
    if missing:
        raise MNNError(f"{path}: the key '{missing[0]}' is missing")
    found = {name: _value(path, name, kinds[name].default, value) for name, value in given.items()}
    made = Settings(**found)
    _check(made, path)
    return made


def _value(path: Path, name: str, default: object, value: Any) -> Any:
    """A value of the kind that a key has."""
    if name in _PLACES and isinstance(value, str):
        return path.parent / value
    if name == "validation" and _is_number(value):
        return float(value)
    if name == "size" and (_is_whole(value) or _all(value, _is_whole, 2)):
        return tuple(value) if isinstance(value, list) else (value, value)
    if name in ("mean", "norm") and (_is_number(value) or _all(value, _is_number)):
        return tuple(float(v) for v in (value if isinstance(value, list) else [value]))
    if name == "channels" and _is_whole(value):
        return value
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif (isinstance(default, str) and isinstance(value, str)) or (isinstance(default, int) and _is_whole(value)):
        return value
    elif isinstance(default, float) and name not in _PLACES and _is_number(value):
        return float(value)
    raise MNNError(f"{path}: {name} = {value!r}: {_WANTED.get(name) or _wanted(default)} is expected")


_WANTED = {
    "size": "a whole number or [height, width]", "mean": "a number or one per channel",
    "norm": "a number or one per channel", "channels": "1 or 3",
    "validation": "a folder, or the share of the pictures that is held out",
    **dict.fromkeys(("data", "output", "model", "teacher"), "a path"),
}  # fmt: skip


def _wanted(default: object) -> str:
    kinds = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}
    return kinds.get(type(default), "something else")


def _check(s: Settings, path: Path) -> None:
    for name in _POSITIVE:
        if getattr(s, name) <= 0:
            raise MNNError(f"{path}: {name} = {getattr(s, name)}: it must be more than 0")
    for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("train", PARTS)):
        if getattr(s, name) not in known:
            raise MNNError(f"{path}: {name} = {getattr(s, name)!r}: it is one of {', '.join(known)}")
    if s.precision not in ("high", "normal", "low"):
        raise MNNError(f"{path}: precision = {s.precision!r}: it is one of high, normal, low")
    for name, value in (("validation", s.validation), ("share", s.share), ("dropout", s.dropout)):
        if isinstance(value, float) and not (0 < value < 1 or (name != "validation" and 0 <= value <= 1)):
            raise MNNError(f"{path}: {name} = {value:g}: a share between 0 and 1 is expected")
    if s.dropout >= 1:
        raise MNNError(f"{path}: dropout = {s.dropout:g}: nothing would be left")
    if s.channels not in (None, 1, 3):
        raise MNNError(f"{path}: channels = {s.channels}: 1 or 3 is expected")
    if s.size is not None and min(s.size) < 1:
        raise MNNError(f"{path}: size = {list(s.size)}: sizes are more than 0")
    seed(f"{path}: seed", s.seed)
    if s.patience < 0 or s.threads < 0 or s.weight_decay < 0:
        raise MNNError(f"{path}: patience, threads and weight_decay are not negative")
    if s.output.suffix.lower() != ".mnn":
        raise MNNError(f"{path}: output = '{s.output.name}': what is written is a .mnn model")
    if not s.output.parent.is_dir():
        raise MNNError(f"{path}: output: there is no folder {s.output.parent}; make it first")
    for name in ("train", "features"):
        if s.model is None and getattr(s, name) != getattr(Settings, name):
            raise MNNError(f"{path}: {name} would change nothing without a model to go on from")
    if s.train == "head" and (s.teacher is not None or s.flip or s.crop):
        raise MNNError(f"{path}: train = 'head' computes the features of every picture once: no teacher, flip or crop")
    if s.model is not None and s.output.exists() and s.model.exists() and s.output.samefile(s.model):
        raise MNNError(f"{path}: output is the model to go on from, which would be lost; write to another file")


def _is_number(value: object) -> bool:
    """A finite one: TOML has ``nan`` and ``inf``."""
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all(value: object, kind: Any, count: int | None = None) -> bool:
    return isinstance(value, list) and len(value) in ((count,) if count else (1, 3)) and all(map(kind, value))


__all__ = ["Settings", "read", "settings_of"]

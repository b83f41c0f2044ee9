"""A training from its settings to the model's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from MNN.data.dataset import Dataset
from MNN.data.loader import DataLoader
from MNN.data.pictures import Look, Pictures, classes_of, divided
from MNN.errors import MNNError
from MNN.model import load
from MNN.nn.initial import seed
from MNN.nn.module import Module
from MNN.optim import methods, schedules
from MNN.optim.optimizer import Optimizer
from MNN.runtime.config import processors
from MNN.schema.files import replacing
from MNN.train.classification.distillation import Distilled, accuracy_of, loss_of
from MNN.train.classification.features import Found, session_of
from MNN.train.classification.networks import Body, Features, Frame, Head, Small, Transferred, body_of
from MNN.train.classification.settings import Settings
from MNN.train.export import export
from MNN.train.fit import fit
from MNN.train.history import History
from MNN.train.plot import plot

SIZE = (224, 224)
"""Of pictures, where neither the settings nor a model say it."""
Files = dict[str, list[Path]]


@dataclass(frozen=True)
class Trained:
    """What came of a training: what happened, and how many of the pictures that were held out the file that was written
    finds the right class of."""

    history: History
    classes: list[str]
    right: int
    held: int
    files: list[Path] = field(default_factory=list)


def train(s: Settings, progress: bool = True) -> Trained:
    """Trains as the settings say, going on from the checkpoint where there is one, and writes the model, the names of
    its classes and the plot. Ctrl-C writes the checkpoint and is raised again."""
    kept, held = _files(s)
    classes = list(kept)
    seed(s.seed)
    body = None if s.model is None else body_of(s.model, s.features)
    look = _look(s, body)
    data, check = (
        Pictures(
            [f for files in part.values() for f in files],
            [i for i, files in enumerate(part.values()) for _ in files],
            look, s.flip and on, s.crop and on, s.seed,
        )
        for part, on in ((kept, True), (held, False))
    )  # fmt: skip
    threads = s.threads or processors()
    whole = _network(s, body, look, len(classes))
    trained, inputs, validation = _parts(s, whole, look, data, check, threads)
    more: dict[str, Any] = {}
    if s.teacher is not None:
        teacher = _teacher(s.teacher, look, len(classes))
        trained = Distilled(whole, teacher)
        more = {
            "loss": loss_of(len(classes), s.temperature, s.share), "metrics": {"accuracy": accuracy_of(len(classes))}
        }  # fmt: skip
    optimizer = _optimizer(s, trained, threads)
    steps = s.epochs * -(-len(data) // s.batch)
    history = fit(
        trained,
        DataLoader(inputs, s.batch, True, 0 if inputs is not data else threads, s.seed),
        s.epochs,
        optimizer=optimizer,
        validation=DataLoader(validation, s.batch, False, 0, s.seed),
        schedule=_schedule(s, steps),
        checkpoint=s.beside["checkpoint"],
        patience=s.patience,
        progress=progress,
        keep_best=True,
        settings=s.deciding() | {"pictures": _listed(kept, held)},
        **more,
    )
    export(whole, s.output, [1, look.channels, *look.size], names=["image", "scores"])
    with replacing(s.beside["labels"]) as file:
        file.write("".join(f"{name}\n" for name in classes).encode())
    plot(history, s.beside["plot"])
    files = [s.output, s.beside["labels"], s.beside["plot"]]
    return Trained(history, classes, _right(s.output, check, threads), len(check), files)


def _files(s: Settings) -> tuple[Files, Files]:
    """Pictures to train on, and those that are held out, by class."""
    given = classes_of(s.data)
    if isinstance(s.validation, float):
        kept, held = divided(given, s.validation, s.seed)
        return kept, held
    apart = classes_of(s.validation)
    if list(apart) != list(given):
        other = sorted(set(apart) ^ set(given))[0]
        raise MNNError(f"{s.validation} and {s.data} hold different classes: '{other}' is only in one of them")
    return given, apart


def _listed(kept: Files, held: Files) -> list[dict[str, list[str]]]:
    """The names of the pictures, for checkpoints."""
    return [{c: [f.name for f in files] for c, files in part.items()} for part in (kept, held)]


def _look(s: Settings, body: Body | None) -> Look:
    channels, size = s.channels, s.size
    if body is not None:
        own, *sizes = body.picture
        if channels not in (None, own):
            raise MNNError(f"{s.model} takes pictures of {own} channels, not {channels}")
        channels = own
        size = size or ((sizes[0], sizes[1]) if min(sizes) > 1 else None)
    return Look(size or SIZE, channels or 3, s.mean, s.norm)


def _network(s: Settings, body: Body | None, look: Look, classes: int) -> Module:
    if body is None:
        return Small(look.channels, look.size, classes, s.width, s.dropout)
    features = Features(body, s.train == "all")
    return Transferred(features, _width(features, look, s.model), classes, s.dropout)


def _width(module: Module, look: Look, where: object) -> int:
    """How many numbers a network gives for a picture. Raises :class:`MNNError` for one that takes no batches."""
    from MNN.expr.create import placeholder
    from MNN.expr.types import NCHW

    shapes = []
    for batch in (1, 2):
        try:
            shapes.append(list(module.forward(placeholder([batch, look.channels, *look.size], NCHW)).shape))
        except MNNError as error:
            what = (
                "pictures of this size" if batch == 1 else "more than one picture at once; convert it with a free batch"
            )
            raise MNNError(f"{where} does not take {what} ({error})") from error
    if len(shapes[1]) != 2 or shapes[1][0] != 2:
        raise MNNError(f"{where} gives {shapes[1]} for two pictures, [2, numbers] is expected")
    return int(shapes[1][1])


def _teacher(path: Path, look: Look, classes: int) -> Module:
    body = body_of(path)
    teacher = Frame(body, body.scores, trained=False)
    if body.picture[0] != look.channels:
        raise MNNError(f"{path} takes pictures of {body.picture[0]} channels, the student of {look.channels}")
    found = _width(teacher, look, path)
    if found != classes:
        raise MNNError(f"{path} knows {found} classes, the pictures are of {classes}: a teacher has the same ones")
    return teacher


def _parts(
    s: Settings, whole: Module, look: Look, data: Pictures, check: Pictures, threads: int
) -> tuple[Module, Dataset, Dataset]:
    """The module whose parameters are moved, with what it is trained and checked on."""
    if s.train != "head":
        return whole, data, check
    assert isinstance(whole, Transferred)
    session = session_of(whole.features, (look.channels, *look.size), threads, s.precision)
    return Head(whole), Found(session, data), Found(session, check)


def _optimizer(s: Settings, model: Module, threads: int) -> Optimizer:
    made: Mapping[str, Any] = {
        "sgd": methods.SGD, "adam": methods.ADAM, "adamw": methods.AdamW, "rmsprop": methods.RMSprop,
        "lion": methods.Lion,
    }  # fmt: skip
    options = {"weight_decay": s.weight_decay, "threads": threads, "precision": s.precision}
    found: Optimizer = made[s.optimizer](model, s.rate, **options)
    return found


def _schedule(s: Settings, steps: int) -> schedules.Schedule:
    if s.schedule == "constant":
        return schedules.constant(s.rate)
    return schedules.cosine(s.rate, steps) if s.schedule == "cosine" else schedules.linear(s.rate, steps)


def _right(path: Path, check: Pictures, threads: int) -> int:
    """Of how many pictures the file that was written finds the class."""
    reader = load(str(path), threads=threads)
    found = (reader.run({"image": check[i][0][0][None]})["scores"].argmax() for i in range(len(check)))
    return sum(int(f) == label for f, label in zip(found, check.labels, strict=True))


def begin_anew(s: Settings) -> None:
    """Removes the checkpoint of an earlier training."""
    s.beside["checkpoint"].unlink(missing_ok=True)


__all__ = ["Trained", "begin_anew", "train"]

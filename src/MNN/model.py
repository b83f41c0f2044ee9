"""Model files opened for use: the graph, what part of it to run, and the short way to an answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from MNN.backends.base.run_lock import RunLock
from MNN.cache.scratch import FEW, apart, scratch
from MNN.errors import MNNError
from MNN.formatting import plural
from MNN.ir.graph import Graph, Node, Value, captured
from MNN.runtime.config import Config
from MNN.runtime.session import Session, TensorInfo
from MNN.runtime.storage.digests import digest_of, file_digest
from MNN.runtime.storage.programs import Card, StoredPrograms
from MNN.schema.files import identity, seen, watched

if TYPE_CHECKING:
    from MNN.stateful import StatefulModel

Source = str | os.PathLike[str] | bytes


def open_graph(
    source: Source, inputs: Sequence[str] = (), outputs: Sequence[str] = (), signature: str | None = None
) -> Graph:
    """The graph of a model file, or the part of it between tensors (see :func:`part`); ``signature`` is the entry to
    take of a file that has several.

    It is optimised when it does not come from a converter that has done so; then tensors inside may be gone.
    """
    from MNN.own_states import expose

    with scratch(stays=FEW):
        graph = _entry(source, signature)
        if inputs or outputs:
            graph = part(graph, inputs, outputs)
        expose(graph)
        if _unconverted(source):
            from MNN.passes.manager import optimize

            optimize(graph)
            constants_apart(graph)
    return graph


def constants_apart(graph: Graph) -> None:
    """Moves what passes have computed to where it takes no memory once it is packed (:mod:`MNN.cache.scratch`)."""
    moved: dict[int, np.ndarray] = {}
    for value in graph.values():
        if isinstance(value.data, np.ndarray):
            known = id(value.data)
            if known not in moved:
                moved[known] = apart(value.data)
            value.data = moved[known]


def _entry(source: Source, signature: str | None) -> Graph:
    from MNN.frontends import Hints, load_graph

    return load_graph(source, hints=Hints(signature=signature))


def _unconverted(source: Source) -> bool:
    """Whether no converter has optimised the model: files of other formats than our own."""
    from MNN.frontends import kind_of

    return kind_of(source) not in ("mnn", "json")


def part(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """The part of a graph that computes ``outputs`` from ``inputs`` (names of any tensors; none means the model's own).

    Raises :class:`MNNError` for names that the model lacks, and when ``outputs`` need an input that is not given.
    """
    named = {v.name: v for v in graph.values()}
    starts = [_find(named, n, "input", graph) for n in inputs] or [v for v in graph.inputs if not v.is_const]
    ends = [_find(named, n, "output", graph) for n in outputs] or list(graph.outputs)
    known = set(starts)
    made = {v: node for node in graph.nodes for v in node.outputs}
    wanted: set[Node] = set()
    stack = [v for v in ends if v not in known]
    while stack:
        value = stack.pop()
        node = made.get(value)
        if node is None:
            if not value.is_const and value not in known:
                raise MNNError(
                    f"the outputs {[v.name for v in ends]} need the model's input '{value.name}', which is not among "
                    f"the inputs {[v.name for v in starts]}"
                )
        elif node not in wanted:
            wanted.add(node)
            stack += [v for v in (*node.inputs, *captured(node)) if v is not None and v not in known]
    kept = [node for node in graph.nodes if node in wanted]
    return Graph(graph.name, starts, ends, kept, graph.meta)


def _find(named: Mapping[str, Value], name: str, what: str, graph: Graph) -> Value:
    if name not in named:
        own = [v.name for v in (graph.inputs if what == "input" else graph.outputs) if not v.is_const]
        raise MNNError(f"the model has no tensor '{name}' to be an {what}; its {what}s are {', '.join(own)}")
    return named[name]


def relax(session: Session) -> None:
    """Lets inputs have other sizes than the model declares, as PyMNN does: operators say what does not fit."""
    for name, info in session.inputs.items():
        if info.shape is not None:
            free = tuple(f"{name}.{i}" for i in range(len(info.shape)))
            session.inputs[name] = TensorInfo(name, info.dtype, free)


class Opened:
    """A model file, or the part of it between tensors, read once: when its graph is first asked for."""

    def __init__(
        self, source: Source, inputs: Sequence[str] = (), outputs: Sequence[str] = (), signature: str | None = None
    ) -> None:
        if not isinstance(source, (str, os.PathLike, bytes)):
            raise MNNError(f"a model is a path or the bytes of a file, not {type(source).__name__} ({source!r:.40})")
        if not isinstance(source, bytes) and os.path.isdir(source):
            from MNN.frontends import file_of  # what is stored is run without any front end

            source = file_of(source)
        self.source, self.inputs, self.outputs, self.signature = source, tuple(inputs), tuple(outputs), signature
        self._mark = _mark(source)
        self._graph: Graph | None = None
        self._files: dict[str, str] = {}
        self._reading = RunLock()

    def __call__(self) -> Graph:
        with self._reading.lock:
            if self._graph is None:
                with watched() as self._files:
                    self._graph = open_graph(self.source, self.inputs, self.outputs, self.signature)
        seen(self._files)  # a session stores programs with the files that they come from
        return self._graph

    def digest(self, files: Mapping[str, str]) -> str:
        """See :class:`MNN.runtime.storage.digests.FromFiles`: of the model's file and those of weights beside it."""
        known, source = dict(files), self.source
        if not isinstance(source, bytes):
            known[os.path.abspath(source)] = self._mark
        read = sorted(file_digest(path, mark) for path, mark in known.items())  # whatever they are called
        whole = [hashlib.sha256(source).hexdigest()] if isinstance(source, bytes) else []
        return digest_of(whole + read, self.inputs, self.outputs, self.signature)

    def session(self, config: Config) -> Session:
        """A session, which reads the file when no program for its inputs is stored; of a model whose operators keep
        something from run to run, one that does so."""
        session = Session(self, config, self.stored(config))
        if not session.own_states:
            return session
        from MNN.remembering import RememberingSession

        return RememberingSession(session)

    def stored(self, config: Config, states: Mapping[str, str] | None = None) -> StoredPrograms | None:
        """Programs of it that were planned before, with these outputs being states."""
        return StoredPrograms.of(self.source, config, self.inputs, self.outputs, states, self.signature)

    def card(self) -> Card:
        """What it takes and gives; the file is read where nothing is stored."""
        stored = self.stored(Config())
        card = None if stored is None else stored.card()
        return Card.of(self()) if card is None else card


def _mark(source: Source) -> str:
    """The identity of a model's file as it is opened; empty for what is none, which reading it will say."""
    try:
        return "" if isinstance(source, bytes) else identity(os.stat(source))
    except (OSError, ValueError):
        return ""


class Model(Session):
    """A model ready to answer, as :func:`load` gives it: :meth:`run` with names, or a call with arrays in order."""

    def __init__(self, source: Source, config: Config, signature: str | None = None) -> None:
        opened = Opened(source, signature=signature)
        super().__init__(opened, config, opened.stored(config))
        self._source, self._signature = source, signature
        self._whole: Session | None = None

    def __repr__(self) -> str:
        name = f"{len(self._source)} bytes" if isinstance(self._source, bytes) else repr(os.fspath(self._source))
        takes, gives = (", ".join(map(str, infos.values())) for infos in (self.inputs, self.outputs))
        settings = f"{self.config.precision} precision, {plural(self.config.threads, 'thread')}"
        return f"<MNN.Model {name} ({takes}) -> ({gives}); {settings}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies open the file anew: nothing of what has been planned goes with them."""
        source = self._source
        place = source if isinstance(source, bytes) else os.path.abspath(source)
        return type(self), (place, self.config, self._signature)

    def _fetch(self, feeds: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        """As sessions do, also of tensors that optimising has done away with."""
        if {v.name for v in self.graph.values()}.issuperset(fetch):
            return super()._fetch(feeds, fetch)
        if self._whole is None:
            self._whole = Session(_entry(self._source, self._signature), self.config)
        return self._whole.run(feeds, fetch)

    def __call__(self, *arrays: object, **named: object) -> Any:
        """One inference: inputs in the model's order or by name. One output comes alone, several as a list."""
        names = [n for n in self.inputs if n not in named]
        if len(arrays) > len(names):
            raise MNNError(f"{len(arrays) + len(named)} inputs for a model that takes {list(self.inputs)}")
        feeds = {**dict(zip(names, arrays, strict=False)), **named}
        results = list(self.run(feeds).values())
        return results[0] if len(results) == 1 else results


@overload
def load(
    source: Source, threads: int = 1, precision: str = "normal", cache: bool = True, *, signature: str | None = None
) -> Model: ...


@overload
def load(
    source: Source,
    threads: int = 1,
    precision: str = "normal",
    cache: bool = True,
    *,
    states: Mapping[str, str],
    max_length: int | None = None,
    signature: str | None = None,
) -> StatefulModel: ...


def load(
    source: Source,
    threads: int = 1,
    precision: str = "normal",
    cache: bool = True,
    *,
    states: Mapping[str, str] | None = None,
    max_length: int | None = None,
    signature: str | None = None,
) -> Model | StatefulModel:
    """Opens a model (a file of any known format, by its path or as bytes) for inference with ``threads`` threads.

    ``precision`` is ``high``, ``normal`` or ``low``; ``cache`` keeps compiled kernels on disk. With ``states``, outputs
    by the inputs that they become, the model keeps these from run to run (:class:`MNN.stateful.StatefulModel`), at most
    ``max_length`` long; so it does with what operators of an official model keep by themselves (caches of attention).
    ``signature`` is the entry to take of a SavedModel or TensorFlow Lite model that has several.

    >>> MNN.load("model.onnx").run({"x": array}, fetch=["some tensor"])  # doctest: +SKIP
    """
    config = Config(threads=threads, precision=precision, cache=cache)
    session: Session
    if states is None:
        session = Model(source, config, signature)
        if not session.own_states:
            return session
    elif not isinstance(states, Mapping):
        raise MNNError(f"states are outputs by the names of the inputs that they become, not {states!r:.60}")
    else:
        opened = Opened(source, signature=signature)
        session = Session(opened, config, opened.stored(config, states), states)
    from MNN.stateful import StatefulModel

    return StatefulModel(session, states, max_length)


def get_model_uuid(path: Source) -> str:
    """The identity that the converter wrote into a .mnn file; empty when it wrote none."""
    from MNN.frontends import load_graph

    return str(load_graph(path).meta.get("uuid", ""))

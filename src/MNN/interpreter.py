# ruff: noqa: N802 - the names are PyMNN's
"""PyMNN's way of running a model: an Interpreter with sessions, whose inputs are filled and outputs read."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.model import Opened, Source, relax
from MNN.nn.runtime_config import check_backend, config_of
from MNN.runtime.config import Config
from MNN.schema.files import replacing
from MNN.steps import ByInfo, ByName, Callback, OpInfo, Stepper
from MNN.tensor import Tensor

if TYPE_CHECKING:
    from MNN.runtime.executor import Plan

_ORDERS = {"NHWC": 0, "NCHW": 1, "NC4HW4": 1}
CALL_BACK_STOP = 4


class Session:
    """A model with memory of its own: input tensors to fill, output tensors to read."""

    def __init__(self, opened: Opened, config: Config) -> None:
        self.engine = opened.session(config)
        self.config = config
        for name, kind in self.engine.kinds.items():
            if kind in ("sequence", "map") and name in (*self.engine.inputs, *self.engine.outputs):
                raise UnsupportedError(
                    f"'{name}' is a {kind}, which no Tensor can hold; use MNN.load() for this model: it takes "
                    "and gives lists of arrays and dicts"
                )
        orders = {name: _ORDERS[layout] for name, layout in self.engine.card.formats.items()}
        self.inputs: dict[str, Tensor] = {}
        self.declared = dict(self.engine.inputs)
        for name, info in self.declared.items():
            if info.shape is None:
                raise MNNError(f"input '{name}' has no declared shape; use MNN.load() for this model")
            sizes = [d if isinstance(d, int) else 1 for d in info.shape]
            array = np.zeros(sizes, (info.dtype or DType.F32).numpy)
            self.inputs[name] = Tensor.of(array, orders[name])
        relax(self.engine)
        self.outputs = {n: Tensor.of(np.zeros(0, np.float32), orders[n]) for n in self.engine.outputs}
        self._prepared: list[tuple[int, ...]] | None = None
        """The sizes of the inputs for which the outputs have theirs."""
        self._stepper: Stepper | None = None

    def feeds(self) -> dict[str, np.ndarray]:
        return {name: tensor._array for name, tensor in self.inputs.items()}

    def _sizes(self) -> list[tuple[int, ...]]:
        return [t._array.shape for t in self.inputs.values()]

    def prepare(self) -> None:
        """Plans for the present sizes of the inputs, and gives the outputs theirs."""
        if self._sizes() == self._prepared:
            return
        types = self.engine.result_types(self.feeds())
        if types is None:
            self.run()  # sizes depend on numbers: only running tells
            return
        for tensor, (kind, shape) in zip(self.outputs.values(), types, strict=True):
            tensor._array = np.zeros(shape, kind.numpy)
        self._prepared = self._sizes()

    def run(self) -> None:
        for name, array in self.engine.run(self.feeds()).items():
            if not isinstance(array, np.ndarray):
                raise UnsupportedError(f"output '{name}' is no tensor but {array!r:.40}; use MNN.load() for this model")
            self.outputs[name]._array = array
        self._prepared = self._sizes()

    def step(self, before: Callback | None, after: Callback | None, names: bool) -> bool:
        """One operator after the other; False when a callback stopped the run."""
        if self.engine.own_states:
            raise UnsupportedError("a model that keeps something from run to run is not run operator by operator")
        if self._stepper is None:
            self._stepper = Stepper(self.engine.graph, self.config)
        values = {v: self.inputs[v.name]._array for v in self.engine.graph.inputs if v.name in self.inputs}
        results = self._stepper.run(values, before, after, names)
        if results is None:
            return False
        for tensor, array in zip(self.outputs.values(), results, strict=True):
            tensor._array = array
        self._prepared = self._sizes()
        return True

    @property
    def plan(self) -> Plan:
        return self.engine.plan(self.feeds())

    def __reduce__(self) -> str:
        raise MNNError("a session cannot be pickled: pickle its Interpreter, which opens the model again, and make one")

    def cache(self) -> None:
        """Taken for PyMNN's sake: memory belongs to the session already."""

    def removeCache(self) -> None:
        """Taken for PyMNN's sake, like :meth:`cache`."""


class Interpreter:
    """A model file (a path or bytes, .mnn or .onnx) from which sessions are made."""

    def __init__(self, model: Source) -> None:
        self._opened = Opened(model)
        self._card = self._opened.card()

    def __reduce__(self) -> tuple[type[Interpreter], tuple[Source]]:
        return type(self), (self._opened.source,)

    def createSession(self, config: Mapping[str, Any] | None = None, runtime: Config | None = None) -> Session:
        """A session with settings such as ``{'backend': 'CPU', 'numThread': 4, 'precision': 'high'}``.

        ``saveTensors`` names further tensors to be read as outputs, ``outputPaths`` the only ones. Sizes that the model
        leaves open are 1 until :meth:`resizeTensor`. Backends other than CPU fall back to it with a warning.
        """
        if runtime is not None and not isinstance(runtime, Config):
            raise MNNError(f"runtime comes from createRuntime(), found {type(runtime).__name__}")
        own = config_of(config)
        settings = own if runtime is None else runtime
        given = config or {}
        kept = json.loads(self._card.facts.get("states", "{}")).values()
        model_ends = [info.name for info in self._card.outputs if info.name not in kept]
        ends = list(given.get("outputPaths") or model_ends)
        ends += [n for n in given.get("saveTensors") or () if n not in ends]
        starts = list(given.get("inputPaths") or ())
        whole = ends == model_ends and not starts
        session = Session(self._opened if whole else Opened(self._opened.source, starts, ends), settings)
        open_sizes = any(not isinstance(d, int) for i in session.declared.values() for d in i.shape or ())
        if not open_sizes:
            session.prepare()
        return session

    @staticmethod
    def createRuntime(configs: Sequence[Mapping[str, Any]]) -> tuple[Config, tuple[bool, ...]]:
        """Settings for :meth:`createSession` to share (those of the first dictionary), and for each dictionary whether
        its backend is here."""
        if isinstance(configs, Mapping) or not isinstance(configs, Sequence):
            raise MNNError(f"createRuntime() takes a sequence of dictionaries of settings, found {configs!r:.60}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the answer says which are not here
            found = [(config_of(c), check_backend(c.get("backend", "CPU"))) for c in configs]
        return found[0][0] if found else Config(), tuple(here for _, here in found)

    # -- tensors --------------------------------------------------------------------------------------------------

    def getSessionInput(self, session: Session, name: str | None = None) -> Tensor:
        """An input by name; the first one without a name."""
        return _pick(_session(session).inputs, name, "input")

    def getSessionInputAll(self, session: Session) -> dict[str, Tensor]:
        """All inputs by name."""
        return dict(_session(session).inputs)

    def getSessionOutput(self, session: Session, name: str | None = None) -> Tensor:
        """An output by name; the first one without a name."""
        _session(session).prepare()
        return _pick(session.outputs, name, "output")

    def getSessionOutputAll(self, session: Session) -> dict[str, Tensor]:
        """All outputs by name."""
        _session(session).prepare()
        return dict(session.outputs)

    def resizeTensor(self, tensor: Tensor, shape: Sequence[int]) -> None:
        """Another shape for an input, in the order of its dimension type; :meth:`resizeSession` checks it."""
        if not isinstance(tensor, Tensor):
            raise MNNError(f"resizeTensor() takes a tensor of getSessionInput(), found {type(tensor).__name__}")
        try:
            sizes = tuple(int(d) for d in shape)
        except (TypeError, ValueError, OverflowError) as error:
            raise ShapeError(f"a shape is a sequence of whole numbers, found {shape!r:.60}") from error
        if any(d < 0 for d in sizes):
            raise ShapeError(f"sizes must not be negative, found {list(sizes)}")
        tensor._resize(sizes)

    def resizeSession(self, session: Session, needRelloc: int = 0) -> bool:
        """Plans for the inputs' present sizes. Raises :class:`ShapeError` when operators do not take them."""
        _session(session).prepare()
        return True

    # -- running --------------------------------------------------------------------------------------------------

    def runSession(self, session: Session) -> int:
        """One inference; 0. Raises :class:`MNNError` when it fails."""
        _session(session).run()
        return 0

    def runSessionWithCallBack(self, session: Session, begincallback: ByName, endcallback: ByName) -> int:
        """One inference, operator by operator: ``begincallback(inputs, name)`` before each, ``endcallback(outputs,
        name)`` after it.

        Where the first gives False the operator is skipped (its outputs are zeros); where the second does the run ends
        and 4 is returned, else 0. What a callback writes into a tensor is what later operators get.
        """
        return 0 if _session(session).step(begincallback, endcallback, True) else CALL_BACK_STOP

    def runSessionWithCallBackInfo(self, session: Session, begincallback: ByInfo, endcallback: ByInfo) -> int:
        """Like :meth:`runSessionWithCallBack`; callbacks get an :class:`OpInfo` instead of the name."""
        return 0 if _session(session).step(begincallback, endcallback, False) else CALL_BACK_STOP

    def updateSessionToModel(self, session: Session, path: str | None = None) -> None:
        """Writes the model to ``path``, whole or not at all. Sessions never change its constants, so that there is
        nothing else to be taken over from them. Raises :class:`MNNError` for models that are no .mnn file."""
        _session(session)
        if path is None:
            return
        from MNN.frontends import kind_of

        source = self._opened.source
        if kind_of(source) != "mnn":
            raise MNNError("updateSessionToModel() writes models that came from a .mnn file; convert() writes others")
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        with replacing(path) as file:
            file.write(data)

    # -- information ----------------------------------------------------------------------------------------------

    def getSessionInfo(self, session: Session, code: int) -> float | int:
        """0: planned memory in MB; 1: millions of multiplications and additions; 2: backend (0, the CPU); 3: 0 when the
        session is ready to run; 4: threads."""
        if code == 0:
            return session.engine.program(session.feeds()).arena_bytes / 2**20
        if code == 1:
            return session.engine.program(session.feeds()).flops / 1e6
        if code == 3:
            session.prepare()
            return 0
        if code not in (2, 4):
            raise MNNError(f"getSessionInfo() knows the codes 0 to 4, not {code!r}")
        return session.config.threads if code == 4 else 0

    def getModelVersion(self) -> str:
        """The release of the converter that wrote the file; empty when it says nothing."""
        return self._card.facts.get("version", "")

    # -- taken for PyMNN's sake -----------------------------------------------------------------------------------

    def setCacheFile(self, path: str, size: int = 128) -> None:
        """Kernels of all models are cached in one place (``MNN_CACHE_DIR``); nothing is written here."""

    def updateCacheFile(self, session: Session, flag: int = 0) -> int:
        """Like :meth:`setCacheFile`; 0."""
        return 0

    def setSessionMode(self, mode: int) -> None:
        """Changes nothing: callbacks work in every session."""

    def setSessionHint(self, hint: int, value: int) -> None:
        """Changes nothing."""

    def setExternalFile(self, path: str, size: int = 128) -> None:
        """Changes nothing: external weights are found beside the model."""

    def cache(self, session: Session) -> None:
        """Changes nothing: a session's memory is its own."""

    def removeCache(self) -> None:
        """Changes nothing, like :meth:`cache`."""


def _session(session: object) -> Session:
    """Raises :class:`MNNError` for what is none."""
    if not isinstance(session, Session):
        raise MNNError(f"a session comes from createSession(), found {type(session).__name__}")
    return session


def _pick(tensors: Mapping[str, Tensor], name: str | None, what: str) -> Tensor:
    if name is None:
        if not tensors:
            raise MNNError(f"the model has no {what}")
        return next(iter(tensors.values()))
    if name not in tensors:
        raise MNNError(f"the session has no {what} '{name}'; it has {', '.join(tensors)}")
    return tensors[name]


__all__ = ["Interpreter", "OpInfo", "Session"]

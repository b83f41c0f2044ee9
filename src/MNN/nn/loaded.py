"""Modules from model files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.shaping import converted
from MNN.expr.types import NCHW, NHWC, Backend, MemoryMode, PowerMode, PrecisionMode, data_format, storable
from MNN.expr.var import Var
from MNN.formatting import plural
from MNN.ir.dtype import DType
from MNN.model import Opened, Source, relax
from MNN.nn.module import Module
from MNN.nn.runtime_config import RuntimeManager, check_backend, precision_name
from MNN.runtime.config import Config
from MNN.runtime.session import Session, TensorInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack  # Python's own has it from 3.11 on


class ModuleOptions(TypedDict, total=False):
    """Keywords of :func:`load_module_from_file`."""

    runtime_manager: RuntimeManager | None
    dynamic: bool
    shape_mutable: bool
    rearrange: bool
    backend: Backend | str | int
    memory_mode: MemoryMode | str | int
    power_mode: PowerMode | str | int
    precision_mode: PrecisionMode | str | int
    thread_num: int


def load_module_from_file(
    file_name: Source, input_names: Sequence[str], output_names: Sequence[str], **kwargs: Unpack[ModuleOptions]
) -> LoadedModule:
    """The part of a model that computes ``output_names`` from ``input_names``: any tensors; none means the model's own.

    Keywords: ``runtime_manager`` (settings from :func:`create_runtime_manager`), or ``backend``, ``precision_mode`` and
    ``thread_num``. ``dynamic``, ``shape_mutable``, ``rearrange``, ``memory_mode`` and ``power_mode`` are taken for
    PyMNN's sake: every module takes inputs of any size that fits.
    """
    if unknown := sorted(set(kwargs) - set(ModuleOptions.__annotations__)):
        raise TypeError(f"load_module_from_file() takes no {', '.join(unknown)}")
    manager = kwargs.get("runtime_manager")
    if manager is not None:
        if not isinstance(manager, RuntimeManager):
            raise MNNError(f"runtime_manager comes from create_runtime_manager(), found {type(manager).__name__}")
        config = manager.config
    else:
        check_backend(kwargs.get("backend", "CPU"))
        precision = precision_name(kwargs.get("precision_mode", "normal"))
        config = Config(threads=max(int(kwargs.get("thread_num", 1)), 1), precision=precision)
    return LoadedModule(Opened(file_name, list(input_names or ()), list(output_names or ())).session(config))


class LoadedModule(Module):
    """A model file's network. Inputs are Vars (or arrays) in any layout; the model's own layout is honoured."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._declared = dict(session.inputs)
        relax(session)
        self._nested = session.kinds
        self._formats = {name: data_format[layout] for name, layout in session.card.formats.items()}

    def forward(self, x: Any) -> Any:
        """One Var in gives one Var out (the first output), a sequence gives the list of all outputs. Outputs of ONNX
        models that are sequences are lists of Vars, maps dicts, empty optionals None, strings arrays.

        A three-dimensional image given to an input of four dimensions is a batch of one in the layout it had before
        any conversion. Raises :class:`ShapeError` when shapes or element types cannot match.
        """
        if isinstance(x, (list, tuple)):
            return self._run(list(x))
        return self._run([x])[0]

    def onForward(self, x: list[Var]) -> list[Var]:  # noqa: N802 - PyMNN's name
        """All outputs for a list of inputs."""
        return self._run(list(x))

    def _run(self, given: list[Any]) -> list[Var]:
        inputs = self._declared
        if len(given) != len(inputs):
            raise ShapeError(
                f"{plural(len(given), 'input')} for a module that takes {len(inputs)}: {', '.join(inputs)}"
            )
        feeds = {info.name: self._feed(v, info) for v, info in zip(given, inputs.values(), strict=True)}
        try:
            results = self._session.run(feeds)
        except ShapeError as error:
            raise ShapeError(f"{error}{self._differences(feeds)}") from error
        return [self._result(name, array) for name, array in results.items()]

    def _feed(self, value: Any, info: TensorInfo) -> Any:
        if info.name in self._nested:
            return _plain(value)
        return _operand(build.to_var(value), info, self._formats[info.name])

    def _differences(self, feeds: dict[str, Any]) -> str:
        """What to add to a message about shapes: inputs whose sizes are not those that the model declares."""
        found = [
            f"input '{n}' is {list(a.shape)} where the model declares {list(shape)}"
            for n, a in feeds.items()
            if isinstance(a, np.ndarray)
            and (shape := self._declared[n].shape) is not None
            and not _fits(a.shape, shape)
        ]
        return f" ({'; '.join(found)}; is the Var's data_format right?)" if found else ""

    def _result(self, name: str, array: Any) -> Any:
        if isinstance(array, list):
            return [self._result(name, a) for a in array]
        if not isinstance(array, np.ndarray) or array.dtype == object:  # a map, nothing, or strings
            return array
        kind = DType.of(array)
        return build.leaf(array.astype(storable(kind).numpy, copy=False), self._formats[name])

    def get_info(self) -> dict[str, object]:
        """``version`` and ``bizCode`` of the file, ``inputNames``, ``outputNames``, and ``inputs``: name, declared
        shape (-1 where the model leaves a size open), element type and layout of each."""
        facts = self._session.card.facts
        return {
            "version": facts.get("version", ""),
            "bizCode": facts.get("bizCode", ""),
            "inputNames": list(self._session.inputs),
            "outputNames": list(self._session.outputs),
            "inputs": [
                {
                    "name": info.name,
                    "shape": None if info.shape is None else [d if isinstance(d, int) else -1 for d in info.shape],
                    "dtype": None if info.dtype is None else info.dtype.value,
                    "data_format": self._formats[info.name],
                }
                for info in self._declared.values()
            ],
        }

    def clone(self, share: bool = False) -> LoadedModule:
        """A module of its own on the same weights."""
        return LoadedModule(self._session.another())


def _plain(value: Any) -> Any:
    """A sequence, map or optional given by a user, with arrays in place of Vars."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value._array() if isinstance(value, Var) else value


def _operand(v: Var, info: TensorInfo, layout: data_format) -> np.ndarray:
    """The numbers of an input as the model lists them."""
    if info.shape is not None and v.ndim == 3 and len(info.shape) == 4:
        v = _batch_of_one(v)
    if info.shape is None or v.ndim == len(info.shape):
        array = converted(v, layout)._array()
    else:
        raise ShapeError(
            f"input '{info.name}' has {v.ndim} axes, {list(v.shape)}, but the model takes {list(info.shape)}"
        )
    if info.dtype is not None:
        array = _typed(array, info)
    return array


def _batch_of_one(v: Var) -> Var:
    sample = v if v._unconverted is None else v._unconverted
    one = build.apply("Unsqueeze", sample, squeezeDims=[0])
    one.set_order(NHWC if sample.data_format is NHWC else NCHW)
    return one


def _fits(shape: Sequence[int], wanted: Sequence[int | str]) -> bool:
    return len(shape) == len(wanted) and all(isinstance(w, str) or w == s for s, w in zip(shape, wanted, strict=True))


def _typed(array: np.ndarray, info: TensorInfo) -> np.ndarray:
    """Widths may differ from the model's: a Var has fewer element types than a model."""
    have, want = DType.of(array), info.dtype
    assert want is not None
    if have is want or (have.is_float and want.is_float) or (have.is_int and (want.is_int or want is DType.BOOL)):
        return array.astype(want.numpy, copy=False)
    raise ShapeError(f"input '{info.name}' holds {have.value} but the model takes {want.value}; use astype()")

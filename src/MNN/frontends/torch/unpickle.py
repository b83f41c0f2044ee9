"""The pickles in PyTorch's files, read without running anything.

Python's own reader calls what a file names. This one makes plain data, tensors and :class:`ScriptObject`; whatever
else a file names is an :class:`Unknown`, and a file that asks for it to be called is refused.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.element_types import COMPLEX_NAMES, NAMES, STORAGES, ComplexType
from MNN.frontends.torch.parsing import unwarned
from MNN.ir.dtype import DType

_SMALL = {"torch.QUInt4x2Storage": 4, "torch.QUInt2x4Storage": 2}
"""Memory of quantised numbers that share bytes, and how many bits each has."""
MAX_STEPS = 1 << 23
"""Operations of one pickle."""


@dataclass(eq=False)
class ScriptObject:
    """An object of a class of the file's code, or of a class that it names: its name, and its attributes.

    ``made``: the program makes it while it runs; the file does not hold it.
    """

    kind: str
    state: Any = field(default_factory=dict)
    made: bool = False


@dataclass(frozen=True)
class EnumMember:
    """A member of an enumeration of the file's code: the class, and the member's value."""

    kind: str
    value: str | int | float


@dataclass(frozen=True)
class Unknown:
    """A name of a Python object that is not known here. It can lie about, but not be called."""

    name: str


@dataclass(eq=False)
class Storage:
    """The memory of tensors: a part of the archive. ``strange``: the name of an element type that is not known here;
    of complex tensors ``dtype`` is that of their pairs."""

    key: str
    dtype: DType
    is_complex: bool = False
    strange: str = ""

    @classmethod
    def of(cls, key: str, kind: Any) -> Storage:
        """``kind``: what a pickle says of the element type."""
        if isinstance(kind, ComplexType):
            return cls(key, kind.part, is_complex=True)
        return cls(key, kind) if isinstance(kind, DType) else cls(key, DType.U8, strange=getattr(kind, "name", "other"))


@dataclass(eq=False)
class StoredTensor:
    """A tensor of the archive, made an array when it is asked for. ``scale`` and ``zero`` of quantised ones: numbers,
    or tensors with one for each place along ``axis``."""

    archive: Archive
    folder: str
    storage: Storage
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    scale: Any = None
    zero: Any = None
    axis: int | None = None
    _array: np.ndarray | None = None

    @property
    def dtype(self) -> DType:
        return self.storage.dtype

    def array(self) -> np.ndarray:
        """The numbers (of quantised tensors: as they are stored; of complex ones: pairs along one more axis). Raises
        :class:`UnsupportedError` for elements of a type that is not known."""
        if self._array is None:
            name = f"{self.folder}/{self.storage.key}"
            where = f"tensor '{name}'"
            if self.storage.strange in _SMALL:
                self._array = self._unpacked(self.archive.stored(name), _SMALL[self.storage.strange], where)
                return self._array
            if self.storage.strange:
                raise UnsupportedError(f"{where}: elements of the type {self.storage.strange} are not supported")
            sizes, strides, offset = self.sizes, self.strides, self.offset
            if self.storage.is_complex:
                sizes, strides, offset = (*sizes, 2), (*(2 * s for s in strides), 1), 2 * offset
            data = self.archive.stored(name)
            self._array = self.archive.tensor(data, self.dtype, sizes, strides, offset, where)
        return self._array

    def _unpacked(self, data: Any, bits: int, where: str) -> np.ndarray:
        """Numbers of a few bits, the first one in the lowest bits of a byte: as bytes, one after the other."""
        each, count = 8 // bits, math.prod(self.sizes)
        packed = self.archive.tensor(data, DType.U8, (-(-count // each),), (1,), 0, where)
        spread = (packed[:, None] >> (np.arange(each, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
        return np.ascontiguousarray(spread.reshape(-1)[:count].reshape(self.sizes).astype(np.uint8))


def load(archive: Archive, name: str, folder: str) -> Any:
    """What a pickle of the archive holds; its tensors lie in ``folder``. Raises :class:`FormatError`."""
    data = archive.read(name)
    machine = _Machine(archive, name, folder)
    try:
        with unwarned():
            return machine.run(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"{archive.name}: its part '{name}' is damaged ({type(error).__name__}: {error}); "
            "download or export it again"
        ) from error


_MARK = object()
_SCALARS = (str, int, float, bool, bytes, type(None))


class _Machine:
    def __init__(self, archive: Archive, name: str, folder: str) -> None:
        self._archive = archive
        self._name = name
        self._folder = folder
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if steps > MAX_STEPS:
                raise FormatError(f"{self._archive.name}: its part '{self._name}' has more than {MAX_STEPS} operations")
            if opcode.name == "STOP":
                return self._stack.pop()
            handler = _OPCODES.get(opcode.name)
            if handler is None:
                raise FormatError(
                    f"{self._archive.name}: its part '{self._name}' uses the operation {opcode.name} of pickles, which "
                    "PyTorch's files do not have"
                )
            handler(self, argument)
        raise FormatError(f"{self._archive.name}: its part '{self._name}' ends too early")

    # -- stack ------------------------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def pop_mark(self) -> list[Any]:
        """Everything above the last mark."""
        for at in range(len(self._stack) - 1, -1, -1):
            if self._stack[at] is _MARK:
                found = self._stack[at + 1 :]
                del self._stack[at:]
                return found
        raise ValueError("a mark is missing")

    def memo_put(self, at: int) -> None:
        self._memo[at] = self._stack[-1]

    def memo_get(self, at: int) -> None:
        self._stack.append(self._memo[at])

    def tuple_of(self, count: int) -> None:
        found = tuple(self._stack[-count:])
        if len(found) != count:
            raise ValueError("the stack is too short")
        del self._stack[-count:]
        self._stack.append(found)

    def set_items(self, pairs: Sequence[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise ValueError("items for what is no dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if isinstance(key, tuple):
                key = repr(key[:8]) if all(isinstance(k, _SCALARS) for k in key) else "?"
            elif not isinstance(key, _SCALARS):
                key = getattr(key, "name", "?")
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError("elements for what is no list")
        target.extend(items)

    # -- objects ----------------------------------------------------------------------------------------------------

    def named(self, module: str, name: str) -> Any:
        """What a name stands for: a maker of plain data, an element type, a class of the file's code."""
        full = f"{module}.{name}"
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if module == "torch" and name in NAMES:
            return NAMES[name]
        if module == "torch" and name in COMPLEX_NAMES:
            return COMPLEX_NAMES[name]
        if full in _MAKERS:
            return _MAKERS[full]
        if full.startswith("__torch__"):
            return ScriptObject(full)
        return Unknown(full)

    def call(self, target: Any, args: tuple[Any, ...]) -> Any:
        if target in _KNOWN and callable(target):
            return target(self, *args)
        if isinstance(target, ScriptObject):
            return ScriptObject(target.kind)
        name = target.name if isinstance(target, Unknown) else type(target).__name__
        advice = "export the model with torch.export or torch.jit.save"
        if name.startswith(("torch.serialization._get_layout", "torchao", "torch._utils._rebuild_wrapper_subclass")):
            advice = (
                "it holds tensors of classes of their own (torchao): export torchao.utils.unwrap_tensor_subclass(model)"
            )
        raise FormatError(
            f"{self._archive.name}: its part '{self._name}' asks for '{name}' to be called. Nothing that a file "
            f"names is run here; {advice}"
        )

    def build(self, state: Any) -> None:
        target = self._stack[-1]
        if isinstance(target, ScriptObject):
            target.state = state
        elif not isinstance(target, dict):  # attributes of a plain dictionary are hooks and versions
            raise ValueError("a state for what is no object")

    def persistent(self, key: Any) -> None:
        """``("storage", type, key, device, count)``."""
        if not (isinstance(key, tuple) and len(key) == 5 and key[0] == "storage" and isinstance(key[2], str)):
            raise ValueError("a reference that is no tensor's memory")
        self._stack.append(Storage.of(key[2], key[1]))

    def tensor(self, storage: Any, offset: Any, sizes: Any, strides: Any) -> StoredTensor:
        if not isinstance(storage, Storage) or not isinstance(offset, int):
            raise ValueError("a tensor without memory")
        return StoredTensor(self._archive, self._folder, storage, offset, tuple(sizes), tuple(strides))


def _rebuild_tensor(m: _Machine, storage: Any, offset: Any, sizes: Any, strides: Any, *_: Any) -> Any:
    return m.tensor(storage, offset, sizes, strides)


def _rebuild_v3(
    m: _Machine, storage: Any, offset: Any, sizes: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, *_: Any
) -> Any:
    if isinstance(storage, Storage):
        storage = Storage.of(storage.key, dtype)
    return m.tensor(storage, offset, sizes, strides)


def _rebuild_quantized(m: _Machine, storage: Any, offset: Any, sizes: Any, strides: Any, how: Any, *_: Any) -> Any:
    """``how``: (scheme, scale, zero) or (scheme, scales, zeros, axis)."""
    made = m.tensor(storage, offset, sizes, strides)
    if not isinstance(how, tuple) or len(how) not in (3, 4):
        raise ValueError("a quantised tensor without scales")
    made.scale, made.zero = how[1], how[2]
    made.axis = how[3] if len(how) == 4 else None
    return made


def _first(m: _Machine, value: Any, *_: Any) -> Any:
    return value


def _mapping(m: _Machine, *pairs: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pair in pairs[0] if pairs else ():
        if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], _SCALARS):
            found[pair[0]] = pair[1]
    return found


def _text(m: _Machine, *args: Any) -> str:
    return ":".join(str(a) for a in args if isinstance(a, (str, int)))


def _numbers(m: _Machine, value: Any = (), *_: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


_MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_v3,
    "torch._utils._rebuild_qtensor": _rebuild_quantized,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch.jit._pickle.restore_type_tag": _first,
    "torch.jit._pickle.build_intlist": _numbers,
    "torch.jit._pickle.build_doublelist": _numbers,
    "torch.jit._pickle.build_boollist": _numbers,
    "torch.jit._pickle.build_tensorlist": _numbers,
    "torch.Size": _numbers,
    "torch.device": _text,
    "torch._utils._device": _text,
    "collections.OrderedDict": _mapping,
    "builtins.dict": _mapping,
    "__builtin__.dict": _mapping,
}
_KNOWN = frozenset(_MAKERS.values())


def _global(m: _Machine, argument: Any) -> None:
    module, _, name = str(argument).partition(" ")
    m.push(m.named(module, name))


def _stack_global(m: _Machine, argument: Any) -> None:
    name, module = m._stack.pop(), m._stack.pop()
    m.push(m.named(str(module)[:500], str(name)[:500]))


def _reduce(m: _Machine, argument: Any) -> None:
    args, target = m._stack.pop(), m._stack.pop()
    if isinstance(target, ScriptObject) and type(args) in (str, int, float):
        m.push(EnumMember(target.kind, args))
        return
    if not isinstance(args, tuple):
        raise ValueError("arguments that are no tuple")
    m.push(m.call(target, args))


def _set_item(m: _Machine, argument: Any) -> None:
    value, key = m._stack.pop(), m._stack.pop()
    m.set_items([key, value])


def _append(m: _Machine, argument: Any) -> None:
    m.extend([m._stack.pop()])


_OPCODES: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda m, a: None,
    "FRAME": lambda m, a: None,
    "MARK": lambda m, a: m.push(_MARK),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "NEWOBJ": _reduce,
    "BUILD": lambda m, a: m.build(m._stack.pop()),
    "BINPERSID": lambda m, a: m.persistent(m._stack.pop()),
    "EMPTY_DICT": lambda m, a: m.push({}),
    "EMPTY_LIST": lambda m, a: m.push([]),
    "EMPTY_TUPLE": lambda m, a: m.push(()),
    "TUPLE": lambda m, a: m.push(tuple(m.pop_mark())),
    "LIST": lambda m, a: m.push(m.pop_mark()),
    "TUPLE1": lambda m, a: m.tuple_of(1),
    "TUPLE2": lambda m, a: m.tuple_of(2),
    "TUPLE3": lambda m, a: m.tuple_of(3),
    "APPEND": _append,
    "APPENDS": lambda m, a: m.extend(m.pop_mark()),
    "SETITEM": _set_item,
    "SETITEMS": lambda m, a: m.set_items(m.pop_mark()),
    "NONE": lambda m, a: m.push(None),
    "NEWTRUE": lambda m, a: m.push(True),
    "NEWFALSE": lambda m, a: m.push(False),
    "POP": lambda m, a: m._stack.pop() and None,
    "MEMOIZE": lambda m, a: m.memo_put(len(m._memo)),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda m, a: m.memo_put(a)),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, a: m.memo_get(a)),
    **dict.fromkeys(
        (
            "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
            "BINBYTES", "SHORT_BINBYTES", "BINSTRING", "SHORT_BINSTRING", "INT", "FLOAT",
        ),
        lambda m, a: m.push(a),
    ),
}  # fmt: skip
"""Operations of pickles that PyTorch writes."""

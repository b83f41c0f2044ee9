"""What a back end is: a machine that programs run on, as the compiler and the runtime see it.

The compiler asks which primitives it can do and at what cost, and for the program of those it is given. The runtime
asks for programs bound to its memory, and for what stored plans and measurements depend on. Nothing else of a machine
is known above its own room.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.lent import LentBlocks
from MNN.backends.base.program import Buffer, Command, Program
from MNN.backends.base.run_lock import RunLock
from MNN.backends.base.space import HOST, MemorySpace

if TYPE_CHECKING:
    from MNN.backends.base.constants import ConstantPool
    from MNN.backends.base.machine import Span
    from MNN.backends.base.options import Options
    from MNN.ir.dtype import DType
    from MNN.ir.prims import Prim, Tensor

Value = Any
"""A tensor's numbers in a back end's memory space: an array in the host's, what the back end makes of one elsewhere."""
Filled = Callable[[Buffer], None]
"""Called with every constant that a program is the first to use, once it holds its numbers."""

Given = tuple[str, np.dtype, tuple[int, ...]]
"""An input that is known: its name, type and sizes."""
NamedRun = Callable[[Mapping[str, Any]], "dict[str, Value] | None"]


class NotPortableError(Exception):
    """A program that cannot be stored."""


class GoneError(LookupError):
    """What a stored program needs, such as a compiled kernel, is not there any more."""


class Bound(abc.ABC):
    """A program bound to memory, ready to run."""

    program: Program

    @abc.abstractmethod
    def run(self, values: Sequence[Value], threads: int) -> list[Value]:
        """One inference: numbers of the inputs, in the back end's memory, to those of the outputs, the caller's own."""

    def short_run(self, given: Sequence[Given], outputs: Sequence[str], threads: int, long: NamedRun) -> NamedRun:
        """:meth:`run` for inputs of these names, types and sizes, with less to be looked at, where there is such a way.
        Results have the names ``outputs``. ``long`` is the ordinary way, which others take, and inputs unlike these."""
        del given, outputs, threads
        return long

    def resize(self, sizes: tuple[int, ...]) -> None:
        """From the next run on, the sizes that the program leaves open are these, which are within its bounds."""
        raise NotImplementedError("this program leaves no sizes open")

    def result_types(self) -> list[tuple[DType, tuple[int, ...]]]:
        """Element types and sizes of the results, at the open sizes as they are."""
        return [(t.dtype, t.shape) for t in self.program.outputs]

    def run_at(
        self, sizes: tuple[int, ...], values: Sequence[Value], threads: int, states: LentBlocks | None = None
    ) -> list[Value]:
        """One inference at these sizes (none where none are open), whatever other threads have had it run at.

        ``states``: where those of the program (``Program.states``) lie; what ``values`` and the results have in their
        places means nothing."""
        del states
        if sizes:
            raise NotImplementedError("this program leaves no sizes open")
        return self.run(values, threads)

    def parts(self) -> list[TimedBound]:
        """The programs in it whose commands can be timed one by one, in the order they run."""
        return []

    def memory(self) -> Mapping[Hashable, int]:
        """Bytes of working memory by the block that they lie in, which several programs may share."""
        return {}


class TimedBound(Bound):
    """A bound program that can also be run on what lies in its memory already, for measurements."""

    def parts(self) -> list[TimedBound]:
        return [self]

    @abc.abstractmethod
    def compute(self, threads: int) -> None:
        """Runs all commands on what is in memory."""

    @abc.abstractmethod
    def profile(self, threads: int) -> NDArray[np.float64]:
        """Runs all commands on what is in memory; the nanoseconds that each took, of shape (commands,)."""

    def trace(self, threads: int) -> list[Span]:
        """Which thread worked on which command when, in order of their begin; empty where this cannot be told."""
        del threads
        return []

    def arithmetic(self, command: Command) -> str:
        """Which multiply-adds set a command's peak, as :class:`MNN.backends.base.machine.Rates` names them."""
        del command
        return "f32"


class Backend(abc.ABC):
    """A machine with its compiler, for one process. Thread safe."""

    name: ClassVar[str]
    """What users call it."""
    space: ClassVar[MemorySpace] = HOST
    """Where the tensors of its programs lie."""
    opens_sizes: ClassVar[bool] = False
    """Whether it can make programs for a range of sizes (:mod:`MNN.compiler.open`)."""

    @abc.abstractmethod
    def device(self) -> str:
        """What plans and measurements depend on: the device, its memory's sizes."""

    @abc.abstractmethod
    def generators(self) -> str:
        """A text that changes with the code that makes programs for it."""

    def usable_threads(self, wanted: int) -> int:
        """How many threads of the host a program uses when it may use so many."""
        del wanted
        return 1

    # -- compiling --------------------------------------------------------------------------------------------------

    def prefers_unsigned(self) -> bool:
        """Whether products take unsigned bytes on their left with less work than signed ones."""
        return False

    def multiplies_words(self) -> bool:
        """Whether products of 16-bit integers by constant bytes take less time than those of f32."""
        return False

    @abc.abstractmethod
    def cost(self, prim: Prim) -> float | None:
        """About how many seconds a primitive takes; None where this back end cannot do it."""

    def transfer_cost(self, nbytes: int) -> float:
        """About how many seconds it takes to bring so many bytes here from the host's memory, or back."""
        return 0.0 if self.space == HOST else 1e-5 + nbytes / 1e10

    @abc.abstractmethod
    def constants(self) -> ConstantPool:
        """An empty pool for constants in the forms that its programs want."""

    @abc.abstractmethod
    def compile(
        self,
        prims: Sequence[Prim],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        options: Options,
        pool: ConstantPool,
    ) -> Program:
        """The program that computes ``outputs`` (not constant, no duplicates, not among ``inputs``)."""

    # -- running ----------------------------------------------------------------------------------------------------

    def room(self, run_lock: RunLock) -> Any:
        """Memory that bound programs of which one runs at a time, in that turn, may share; given to :meth:`bind`."""
        del run_lock

    @abc.abstractmethod
    def bind(self, program: Program, threads: int, filled: Filled | None = None, room: Any = None) -> Bound:
        """A program ready to run. Raises :class:`MNN.errors.RunError` when memory cannot be had."""

    def receive(self, array: np.ndarray) -> Value:
        """A copy of an array of the host in this memory; the array itself where that is the host's."""
        return array

    def send(self, value: Value) -> np.ndarray:
        """The array of the host with the same numbers."""
        return np.asarray(value)

    # -- storing ----------------------------------------------------------------------------------------------------

    stored_classes: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Names of its own classes, by module, of which :meth:`portable` programs are made."""

    def portable(self, program: Program) -> Program:
        """The same program, of plain data, for another process. Raises :class:`NotPortableError`."""
        del program
        raise NotPortableError(f"programs of the back end '{self.name}' cannot be stored")

    def load(self, program: Program) -> None:
        """Brings in what a portable program needs, before its constants come into memory. Raises :class:`GoneError`."""
        del program

    def release(self) -> None:  # noqa: B027  (most have nothing to give back)
        """Gives back what compiling left in memory."""


__all__ = ["Backend", "Bound", "Filled", "GoneError", "NotPortableError", "TimedBound", "Value"]

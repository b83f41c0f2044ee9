"""Tensors that programs write to in place: variables, and views of others.

A variable holds the value that it has now. Views remember what they are views of: reading one after the tensor below
was written gives its new elements, writing one changes the tensor below. So programs with ``add_``, ``copy_`` and
assignments to slices become graphs, in which nothing is written twice.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.layout import Layout
from MNN.ir.graph import Value

Again = Callable[[TorchBuilder, Value], Value]
Back = Callable[[TorchBuilder, Value, Value], Value]


_BIRTHS = itertools.count(1)


class Variable:
    """``again`` makes the view from the value below; ``back`` gives that value with the view's elements replaced.

    ``is_operand``: in PyTorch it is the very tensor below, which shows when that gets other sizes in place.
    ``born`` says which of two began earlier; what a model stores is always there (0), whenever it is first read.
    """

    def __init__(
        self,
        value: Value,
        below: Variable | None = None,
        again: Again | None = None,
        back: Back | None = None,
        stored: bool = False,
    ) -> None:
        self.born = 0 if stored else next(_BIRTHS)
        self._value = value
        self._below = below
        self._again = again
        self._back = back
        self._version = 0
        self._seen = 0 if below is None else below.version
        self._made_by: TorchBuilder | None = None
        """Of a view, whose graph its value was computed anew in: a branch's is not seen from outside."""
        self._layout: Layout | bool = True
        self._copied: list[tuple[Variable, int]] = []
        self._copies: list[Variable] = []
        self._views: weakref.WeakSet[Variable] | None = None
        self.is_operand = False
        if below is not None:
            below.note_view(self)

    @staticmethod
    def count() -> int:
        """A number that is larger than those of all variables until now."""
        return next(_BIRTHS)

    @property
    def version(self) -> int:
        """How often this, or what it is a view of, was written."""
        return self._version + (0 if self._below is None else self._below.version)

    def read(self, ctx: TorchBuilder) -> Value:
        """The value that it has now. Raises :class:`UnsupportedError` where that hangs on the order of elements in
        memory, which is not known."""
        self._check(ctx)
        if self._below is not None and (self._below.version != self._seen or not ctx.within(self._made_by)):
            assert self._again is not None
            self._value = self._again(ctx, self._below.read(ctx))
            self._seen, self._made_by = self._below.version, ctx
        return self._value

    def write(self, ctx: TorchBuilder, value: Value) -> None:
        """Gives it another value. Raises :class:`UnsupportedError` for views that cannot be written through."""
        if self._below is not None:
            if self._back is None:
                raise ctx.unsupported("writing to a view of this kind", "write to a copy: x.clone()")
            self._below.write(ctx, self._back(ctx, self._below.read(ctx), value))
            self._seen, self._made_by = self._below.version, ctx
        else:
            ctx.note_written(self, self._value)
            self._version += 1
        self._value = value

    def restore(self, value: Value) -> None:
        """Takes back what was written, or says what it became elsewhere (branches)."""
        self._value = value
        self._version += 1

    def named(self, value: Value) -> None:
        """The same value under its name in the file."""
        self._value = value

    @property
    def is_view(self) -> bool:
        return self._below is not None

    @property
    def rank(self) -> int:
        """The number of its axes; 0 where that is not known."""
        return len(self._value.shape or ())

    @property
    def itself(self) -> Variable:
        """The tensor that an operator gave back as it was (``is_operand``), where it did."""
        return self._below.itself if self.is_operand and self._below is not None else self

    @property
    def root(self) -> Variable:
        """The tensor that this is a view of, or a view of a view."""
        return self if self._below is None else self._below.root

    # -- memory -----------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout | None:
        """How its elements lie in memory; None where that is not known."""
        if isinstance(self._layout, Layout):
            return self._layout
        known = self._layout and self._value.shape is not None
        return Layout.plain(self._value.shape or ()) if known else None

    @property
    def in_order(self) -> bool | None:
        """Whether its elements lie in memory in their order; None where that is not known."""
        if self._layout is True:
            return True
        layout = self.layout
        return None if layout is None else layout.in_order

    def lies(self, layout: Layout | None) -> Variable:
        """Says how its elements lie in memory; until then it is in their order. Gives the tensor itself."""
        self._layout = layout or False
        return self

    def copied_from(self, source: Variable) -> None:
        """Says that this may be a copy or a view of ``source``, which nobody knows: once either is written, the other
        cannot be read."""
        self._copied.append((source, source.root.version))
        source.root._copies.append(self)

    def copied_like(self, other: Variable) -> None:
        """Says that this may be a copy or a view of what ``other`` may be one of, as that was then."""
        for source, version in other._copied:
            self._copied.append((source, version))
            source.root._copies.append(self)

    def _check(self, ctx: TorchBuilder) -> None:
        root = self.root
        doubtful = any(source.root.version != version for source, version in root._copied)
        if doubtful or any(c._version for c in root._copies):
            raise ctx.unsupported(
                "writing in place to a tensor, or to what may be a copy or a view of it, by its order in memory,",
                "write to a copy: x.clone()",
            )

    def note_view(self, view: Variable) -> None:
        """Another tensor is a view of this one."""
        if self._views is None:
            self._views = weakref.WeakSet()
        self._views.add(view)

    def become(self, ctx: TorchBuilder, value: Value, layout: Layout | None, again: Again, back: Back) -> None:
        """The same tensor with other sizes or another order of axes (``x.t_()``): a view of what it was."""
        if not self._views and self._below is None:
            self.write(ctx, value)
        elif ctx.written is not None:
            raise ctx.unsupported("giving a tensor that has views other sizes, in a branch,", "use t() for t_()")
        else:
            before = Variable(self._value, self._below, self._again, self._back)
            before.born, before._version, before._seen = self.born, self._version, self._seen
            before._made_by, self._made_by = self._made_by, None
            before._layout, before._copied, before._copies = self._layout, self._copied, self._copies
            for view in self._views or ():
                view._below = before
                before.note_view(view)
            if self._below is not None and self._below._views is not None:
                self._below._views.discard(self)  # what lies between sees it now
            self._views, self._copied, self._copies = None, [], []
            self._value, self._below, self._again, self._back = value, before, again, back
            self._version, self._seen = 0, before.version
            before.note_view(self)
        self.lies(layout)

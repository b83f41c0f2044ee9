"""Code of :class:`MNN.backends.cpu.winograd.spec.WinogradSpec` for windows with taps along a third axis: slices of
tiles, and sums over taps. Where there is no such axis, nothing is emitted for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from MNN.backends.base.record import Record
from MNN.backends.cpu.lang.module import F32, Builder, Kernel, Type, Value
from MNN.backends.cpu.winograd.spec import WinogradSpec


class Slices:
    """What an emission has to know of the third axis."""

    spec: WinogradSpec
    k: Kernel
    b: Builder
    record: Record
    table: Value
    """The records of the block's tiles."""
    count: Value
    """Tiles of the block."""
    across: Value
    """Rows of V and M for each slice."""
    row_v: Value
    tap: Value
    """The tap at hand."""

    def _entry(self, tile: Value, name: str) -> Value:
        """A word of the record of a tile of the block."""
        return self.b.entry(self.table, tile * self.record.count + self.record.index(name))

    def slice_rows(self) -> Value:
        """How many rows V and M have for each slice of the block's tiles, with ``deep``."""
        return self.count

    @contextlib.contextmanager
    def _slices(self) -> Iterator[Value | None]:
        """A loop over the places of slices, where tiles have several; gives the place."""
        if not self.spec.deep:
            yield None
            return
        with self.b.loop(0, self.k.slot("n_slices")) as place:
            yield place.index

    @contextlib.contextmanager
    def _depths(self, tile: Value) -> Iterator[Value | None]:
        """The same over a tile's results along the third axis."""
        if not self.spec.deep:
            yield None
            return
        with self.b.loop(0, self._entry(tile, "depths")) as depth:
            yield depth.index

    def _slice(self, base: Value, x_type: Type, tile: Value, place: Value | None) -> Value:
        """Where the slice of a tile begins that lies at this place."""
        b, k = self.b, self.k
        if place is None:
            return base
        index = b.intrinsic("smin", b.entry(k.pointer("slices"), place), self._entry(tile, "last_slice"))
        return b.gep(base, x_type, index * k.slot("deep_x"))

    def _row(self, tile: Value, place: Value | None) -> Value:
        """Which row of V or M it has there."""
        return tile if place is None else place * self.across + tile

    def _taps(self, v: Value, u: Value, body: Callable[[Value, Value], None]) -> None:
        """``body`` with the first row of V and the panel of U of every tap along the third axis."""
        k, b = self.k, self.b
        if not self.spec.deep:
            body(v, u)
            return
        with b.loop(0, k.slot("n_taps")) as tap:
            self.tap = tap.index
            row = b.entry(k.pointer("taps"), tap.index) * self.across
            body(b.gep(v, F32, row * self.row_v), b.gep(u, F32, tap.index * k.slot("u_tap")))

    def _first(self, done: Value | None, whole: Callable[[bool], tuple[()]]) -> None:
        """``whole(False)`` for the sums that come first, where nothing is ``done``, ``whole(True)`` for others, which
        are added."""
        b = self.b
        if self.spec.deep:
            done = self.tap if done is None else done + self.tap
        if done is None:
            whole(False)
        else:
            b.if_else(b.icmp("eq", done, 0), lambda: whole(False), lambda: whole(True))

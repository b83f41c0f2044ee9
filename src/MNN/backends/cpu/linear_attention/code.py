"""Code generation of :class:`MNN.backends.cpu.linear_attention.spec.LinearAttentionSpec`."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, Kernel, Value
from MNN.backends.cpu.linear_attention.segments import each_segment
from MNN.backends.cpu.linear_attention.spec import LinearAttentionSpec, dividing
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


@generates(LinearAttentionSpec)
def emit_linear_attention(spec: LinearAttentionSpec, target: Target) -> str:
    """The module's text."""
    return _Summing(spec, target).emit()


class _Summing:
    """One emission."""

    def __init__(self, spec: LinearAttentionSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes, self.width = spec.lanes(target), spec.width(target)
        self.vectors, self.most = spec.vectors(target), spec.tokens(target)
        self.vector = F32.vec(self.lanes)
        self.along = dividing(spec.size, target.lanes(DType.F32))
        """Lanes of sums over a key."""
        self.head: Value
        self.group: Value
        self.column: Value

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        tiles = spec.value_size // self.width
        with b.loop(k.begin, k.end) as block:
            self.head = b.udiv(block.index, tiles)
            self.column = (block.index - self.head * tiles) * self.width
            self.group = b.udiv(self.head, spec.heads // spec.groups)
            each_segment(k, self._segment)
        return k.finish()

    # -- the matrix -------------------------------------------------------------------------------------------------

    def _slot(self, place: Value) -> Value:
        start = (place * self.spec.heads + self.head) * (self.spec.size * self.spec.value_size) + self.column
        return self.b.gep(self.k.pointer("pool"), F32, start)

    def _segment(self, first: Value, count: Value, source: Value, to: Value) -> None:
        k, b, spec = self.k, self.b, self.spec

        def load() -> None:
            with b.loop(0, spec.size) as row:
                for v, at in enumerate(self._row(k.scratch, row.index, self.width)):
                    held = b.gep(self._slot(source), F32, row.index * spec.value_size + v * self.lanes)
                    b.store(b.load(self.vector, held), at)

        def clear() -> None:
            with b.loop(0, spec.size) as row:
                for at in self._row(k.scratch, row.index, self.width):
                    b.store(b.const(self.vector, 0.0), at)

        def keep() -> None:
            with b.loop(0, spec.size) as row:
                for v, at in enumerate(self._row(k.scratch, row.index, self.width)):
                    held = b.gep(self._slot(to), F32, row.index * spec.value_size + v * self.lanes)
                    b.store(b.load(self.vector, at), held)

        b.choose(b.icmp("ult", source, k.slot("places")), load, clear)
        whole = b.and_(count, -self.most)
        with b.loop(0, whole, self.most) as some:
            self._tokens(first + some.index, self.most)
        with b.loop(whole, count) as one:
            self._tokens(first + one.index, 1)
        b.if_(b.icmp("ult", to, k.slot("places")), keep)

    def _row(self, base: Value, row: Value, step: int) -> list[Value]:
        return [self.b.gep(base, F32, row * step + v * self.lanes) for v in range(self.vectors)]

    # -- tokens -----------------------------------------------------------------------------------------------------

    def _at(self, name: str, token: Value, head: Value) -> Value:
        """Where the numbers of a head begin."""
        k = self.k
        return self.b.gep(k.pointer(name), F32, token * k.slot(f"{name}_t") + head * k.slot(f"{name}_h"))

    def _columns(self, name: str, token: Value) -> list[Value]:
        start = self._at(name, token, self.head)
        return [self.b.gep(start, F32, self.column + v * self.lanes) for v in range(self.vectors)]

    def _tokens(self, first: Value, count: int) -> None:
        """Some tokens go by the matrix at once."""
        b, spec = self.b, self.spec
        tokens = [first + j if j else first for j in range(count)]
        keys, queries = ([self._at(name, t, self.group) for t in tokens] for name in ("k", "q"))
        decays = [self._at("decay", t, self.head) for t in tokens]
        if not spec.rows:
            decays = [b.load(F32, at) for at in decays]
        given = [[b.load(self.vector, at) for at in self._columns("v", t)] for t in tokens]
        if spec.delta:
            given = self._differences(tokens, keys, decays, given)
        wide = [] if spec.rows else [b.splat(decay, self.lanes) for decay in decays]
        zero = b.const(self.vector, 0.0)
        with b.loop(0, spec.size, carry=[zero] * (count * self.vectors)) as row:
            places = self._row(self.k.scratch, row.index, self.width)
            state, sums = [b.load(self.vector, at) for at in places], list(row.carried)
            for j in range(count):
                key, query = (self._spread(at[j], row.index) for at in (keys, queries))
                left = self._spread(decays[j], row.index) if spec.rows else wide[j]
                for v in range(self.vectors):
                    state[v] = b.fma(state[v], left, b.mul(key, given[j][v]))
                    sums[j * self.vectors + v] = b.fma(query, state[v], sums[j * self.vectors + v])
            for value, at in zip(state, places, strict=True):
                b.store(value, at)
            row.next(*sums)
        for j, token in enumerate(tokens):
            for v, at in enumerate(self._columns("y", token)):
                b.store(row.results[j * self.vectors + v], at)

    def _spread(self, at: Value, row: Value) -> Value:
        """The number of a row in all lanes."""
        return self.b.splat(self.b.load(F32, self.b.gep(at, F32, row)), self.lanes)

    def _differences(
        self, tokens: Sequence[Value], keys: Sequence[Value], decays: Sequence[Value], values: list[list[Value]]
    ) -> list[list[Value]]:
        """What each token adds along its key: its values without what the matrix, as those before it leave it, has for
        that key. Where rows decay by themselves, keys are multiplied by what is left of rows; otherwise sums are."""
        b, count, rows = self.b, len(tokens), self.spec.rows
        zero = b.const(self.vector, 0.0)
        with b.loop(0, self.spec.size, carry=[zero] * (count * self.vectors)) as row:
            state = [b.load(self.vector, at) for at in self._row(self.k.scratch, row.index, self.width)]
            sums = list(row.carried)
            for j in range(count):
                key = self._spread(keys[j], row.index)
                if rows:
                    left = self._spread(decays[j], row.index)
                    state = [b.mul(one, left) for one in state]
                for v in range(self.vectors):
                    sums[j * self.vectors + v] = b.fma(key, state[v], sums[j * self.vectors + v])
            row.next(*sums)
        between = self._products(keys, decays if rows else [])
        found: list[list[Value]] = []
        for j, token in enumerate(tokens):
            shares, share = {}, None if rows else decays[j]
            for i in reversed(range(j)):  # what is left of what token i added
                shares[i] = between[i, j] if share is None else b.mul(share, between[i, j])
                share = None if share is None else b.mul(share, decays[i])
            beta = b.splat(b.load(F32, self._at("beta", token, self.head)), self.lanes)
            own = []
            for v in range(self.vectors):
                held = row.results[j * self.vectors + v]
                if share is not None:
                    held = b.mul(b.splat(share, self.lanes), held)
                for i, part in shares.items():
                    held = b.fma(b.splat(part, self.lanes), found[i][v], held)
                own.append(b.mul(beta, b.sub(values[j][v], held)))
            found.append(own)
        return found

    def _products(self, keys: Sequence[Value], decays: Sequence[Value]) -> dict[tuple[int, int], Value]:
        """Those of each two keys, of the first one what the ``decays`` behind it leave, where there are such."""
        b, pairs = self.b, [(i, j) for j in range(len(keys)) for i in range(j)]
        if not pairs:
            return {}
        part = F32.vec(self.along)
        with b.loop(0, self.spec.size, self.along, carry=[b.const(part, 0.0)] * len(pairs)) as each:
            rows = [b.load(part, b.gep(key, F32, each.index)) for key in keys]
            fading = [b.load(part, b.gep(decay, F32, each.index)) for decay in decays]
            totals, left = dict(zip(pairs, each.carried, strict=True)), list(rows)
            for j in range(1, len(keys)):
                if fading:
                    left[:j] = [b.mul(one, fading[j]) for one in left[:j]]
                for i in range(j):
                    totals[i, j] = b.fma(left[i], rows[j], totals[i, j])
            each.next(*totals.values())
        return {pair: self._across(total) for pair, total in zip(pairs, each.results, strict=True)}

    def _across(self, x: Value) -> Value:
        """The sum of all lanes."""
        b, lanes = self.b, x.type.lanes
        while lanes > 1:
            lanes //= 2
            x = b.add(b.shuffle(x, None, range(lanes)), b.shuffle(x, None, range(lanes, 2 * lanes)))
        return x


__all__ = ["emit_linear_attention"]

"""Conversion of models to .mnn: read, optimise, write; nothing is written unless everything worked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.schema import from_json, write_net
from MNN.schema.files import open_regular
from MNN.schema.invariants import check_net


@dataclass(frozen=True)
class Options:
    """How to convert.

    ``level``: 0 runs no passes, 1 the exact ones, 2 also those that trade size for speed. ``disabled``: passes to leave
    out, by name. ``fp16``: store weights in half precision. ``external``: keep weights in ``<output>.weight`` (done
    anyway when one file cannot hold them). ``batch``: fixes an open first size of the inputs. ``keep_input_format``:
    inputs of pictures stay NCHW for the official engine; else NC4HW4 where that saves it a conversion. ``kind``: what
    the source is (``onnx``, ``mnn``, ``json``); by default its content says.
    """

    level: int = 1
    disabled: tuple[str, ...] = ()
    fp16: bool = False
    external: bool = False
    batch: int | None = None
    biz_code: str = ""
    keep_input_format: bool = True
    kind: str | None = None


@dataclass(frozen=True)
class Report:
    """What a conversion did: node counts before and after, changes per pass, files and their bytes."""

    nodes_before: int
    nodes_after: int
    changes: dict[str, int]
    files: dict[Path, int]

    @property
    def size(self) -> int:
        """Bytes of all files written."""
        return sum(self.files.values())


Progress = Callable[[str], None]


def convert(
    source: str | Path | bytes, target: str | Path, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Converts a model file to ``target``.

    ``progress`` is called with a short text when a new step begins. Raises :class:`MNNError` (listing every
    unsupported operator at once) before anything is written.
    """
    chosen = options or Options()
    tell = progress or (lambda text: None)
    tell("reading")
    if chosen.kind == "json" or (chosen.kind is None and _named_json(source)):
        return _from_json(Path(str(source)), Path(target))
    graph = load_graph(source, chosen.kind)
    if chosen.batch is not None:
        _fix_batch(graph, chosen.batch)
    before = len(graph.nodes)
    changes: dict[str, int] = {}
    if chosen.level > 0:
        changes = optimize(graph, chosen.level, chosen.disabled, lambda name, _: tell(f"pass {name}"))
    elif chosen.disabled:
        raise MNNError("--optimizeLevel 0 runs no passes, so there is none to disable")
    tell("writing")
    written = write_mnn(
        graph,
        Path(target),
        external=chosen.external or None,
        fp16=chosen.fp16,
        biz_code=chosen.biz_code,
        keep_input_format=chosen.keep_input_format,
    )
    return Report(before, len(graph.nodes), changes, {p: p.stat().st_size for p in written})


def _named_json(source: str | Path | bytes) -> bool:
    return not isinstance(source, bytes) and Path(source).suffix.lower() == ".json"


def _from_json(source: Path, target: Path) -> Report:
    """A dumped file back to what it was: no passes run, the tables are written as they stand."""
    with open_regular(source) as file:
        text = file.read()
    try:
        net = from_json(text, "Net")
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from error
    check_net(net, str(source))
    write_net(net, target)
    count = len(net.oplists)
    return Report(count, count, {}, {target: target.stat().st_size})


def _fix_batch(graph: Graph, batch: int) -> None:
    """Sets the first size of every input that leaves it open, wherever its name appears in shapes."""
    if batch < 1:
        raise MNNError(f"--batch must be at least 1, not {batch}")
    names: set[str] = {v.shape[0] for v in graph.inputs if v.shape and isinstance(v.shape[0], str)}
    for value in graph.values():
        if value.shape is not None:
            value.shape = tuple(batch if d in names else d for d in value.shape)


def parse_names(text: str | Iterable[str]) -> tuple[str, ...]:
    """Names separated by commas, or several such texts."""
    parts = [text] if isinstance(text, str) else list(text)
    return tuple(n.strip() for p in parts for n in p.split(",") if n.strip())

"""Conversion of models to .mnn: read, optimise, write; nothing is written unless everything worked."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from MNN.cache.scratch import FEW, scratch
from MNN.comparison import Comparison
from MNN.conversion_report import Outline, Report, Step, outline
from MNN.errors import FormatError, MNNError
from MNN.formatting import dims
from MNN.frontends import NOTHING, Hints, file_of, load_graph
from MNN.frontends.mnn.support import Support, support
from MNN.frontends.mnn.write import net_of
from MNN.ir.graph import Graph
from MNN.ops.inference.shape_check import check_shapes
from MNN.passes.manager import optimize, passes
from MNN.progress import ReportProgress, silent
from MNN.schema import from_json, write_net
from MNN.schema.files import open_regular, replaceable, replacing
from MNN.schema.invariants import check_net
from MNN.schema.offload import write_model
from MNN.weight_quantization import Layers, WeightQuantization, layer_names, quantize_weights, write_layers


@dataclass(frozen=True)
class Options:
    """How to convert.

    ``level``: 0 runs no passes, 1 the exact ones, 2 also those that trade size for speed. ``disabled``: passes to leave
    out, by name. ``fp16``: store weights in half precision. ``external``: keep weights in ``<output>.weight`` (done
    anyway when one file cannot hold them). ``batch``: fixes an open first size of the inputs. ``keep_input_format``:
    inputs of pictures stay NCHW for the official engine; else NC4HW4 where that saves it a conversion. ``kind``: what
    the source is (one of :func:`MNN.frontends.kinds`); by default its content says. ``hints``: what the file does not
    tell: shapes of inputs (TorchScript, Caffe), where the description of weights lies (Caffe). ``shapes``: what inputs
    with open sizes are fixed to; ``static``: none may be left. ``weights``: how weights are quantised, None where they
    are not; ``layers``: what is said of single layers' weights, by name; ``layers_file``: where to write what was done
    to each. ``auth_code``: stored in the file, for applications to check.
    """

    level: int = 1
    disabled: tuple[str, ...] = ()
    fp16: bool = False
    external: bool = False
    batch: int | None = None
    biz_code: str = ""
    keep_input_format: bool = True
    kind: str | None = None
    hints: Hints = NOTHING
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights: WeightQuantization | None = None
    static: bool = False
    layers: Layers = field(default_factory=dict)
    layers_file: Path | None = None
    auth_code: str = ""


Check = Callable[[Path], Comparison]
"""Compares a written file with what it came from. Raises :class:`MNNError` when it must not be kept."""


@scratch(stays=FEW)
def convert(
    source: str | Path | bytes,
    target: str | Path,
    options: Options | None = None,
    progress: ReportProgress = silent,
    check: Check | None = None,
) -> Report:
    """Converts a model file to ``target``: a .mnn file, or an ONNX model where its name says so.

    ``progress`` is told when a new step begins. ``check`` sees the finished file before it is put
    in its place. Raises :class:`MNNError` (listing every unsupported operator at once) before anything is written.
    """
    chosen = options or Options()
    tell = progress
    tell("reading")
    if as_it_stands(source, target, chosen):
        return _from_json(Path(str(source)), Path(target), check, tell)
    source = source if isinstance(source, bytes) else Path(os.fsdecode(file_of(source)))
    graph = load_graph(source, chosen.kind, chosen.hints)
    if chosen.batch is not None:
        _fix_batch(graph, chosen.batch)
    if chosen.shapes:
        _fix_shapes(graph, chosen.shapes)
    if chosen.static:
        _check_static(graph)
    if graph.meta.get("source") in ("ONNX", "TensorFlow"):
        tell("looking at shapes")
        check_shapes(graph)
    before = outline(graph)
    changes: dict[str, int] = {}
    earlier = layer_names(graph)
    if chosen.level > 0:
        changes = optimize(graph, chosen.level, chosen.disabled, _by_round(tell, chosen))
    elif chosen.disabled:
        raise MNNError("--optimizeLevel 0 runs no passes, so there is none to disable")
    layers = []
    if chosen.weights is not None or chosen.layers:
        tell("quantising weights")
        layers = quantize_weights(graph, chosen.weights, chosen.layers, earlier)
        changes["weight-quantization"] = len(layers)
    tell("writing")
    after = outline(graph)
    runs, write = _as_onnx(graph, chosen) if _named_onnx(target) else _as_mnn(graph, chosen)
    del graph  # only the file's form is needed from here on
    listed = chosen.layers_file
    with contextlib.nullcontext() if listed is None else replacing(listed) as file:  # whole before the model is there
        if file is not None:
            write_layers(file, layers)
        files, found = _written(write, Path(target), check, tell)
    sizes = {p: p.stat().st_size for p in files}
    name, size = ("", len(source)) if isinstance(source, bytes) else (str(source), Path(source).stat().st_size)
    return Report(name, size, before, after, changes, sizes, runs, found)


def _by_round(tell: ReportProgress, options: Options) -> Callable[[str, int], None]:
    """Tells of passes as they are done: steps of a round."""
    total = sum(p.level <= options.level and name not in options.disabled for name, p in passes().items())
    done = itertools.count()

    def report_progress(name: str, changes: int) -> None:
        del changes
        tell(f"pass {name}", next(done) % total + 1, total)

    return report_progress


Write = Callable[[Path], "list[Path]"]
"""Writes a model to a path, and tells the files."""


def _as_mnn(graph: Graph, options: Options) -> tuple[list[Support], Write]:
    net = net_of(graph, fp16=options.fp16, biz_code=options.biz_code, keep_input_format=options.keep_input_format)
    if options.auth_code:
        net.extraInfo.name = options.auth_code
    return support(net), lambda path: write_model(net, path, options.external or None)


def _as_onnx(graph: Graph, options: Options) -> tuple[list[Support], Write]:
    """The way back: a standard ONNX file."""
    from MNN.frontends.onnx_export import onnx_model, write_model_proto

    asked = {
        "--fp16": options.fp16, "--saveExternalData": options.external, "--bizCode": bool(options.biz_code),
        "--weightQuantBits": options.weights is not None, "--compressionParamsFile": bool(options.layers),
        "--authCode": bool(options.auth_code),
    }  # fmt: skip
    found = [name for name, on in asked.items() if on]
    if found:
        raise MNNError(f"{', '.join(found)}: these are for .mnn files; what is written here is an ONNX model")
    model = onnx_model(graph)

    def write(path: Path) -> list[Path]:
        write_model_proto(model, path)
        return [path]

    return [], write


def _named_onnx(target: str | Path) -> bool:
    return Path(target).suffix.lower() == ".onnx"


def _written(
    write: Write, target: Path, check: Check | None, tell: ReportProgress
) -> tuple[list[Path], Comparison | None]:
    """Writes the files; those to ``check`` beside the target first, and then puts them in place."""
    if check is None:
        return write(target), None
    replaceable(target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".checking-") as folder:
        files = write(Path(folder) / target.name)
        tell("checking")
        found = check(files[0])
        for file in reversed(files):  # the model itself last: without it the other file means nothing
            os.replace(file, target.parent / file.name)
    return [target.parent / file.name for file in files], found


def _named_json(source: str | Path | bytes) -> bool:
    return not isinstance(source, bytes) and Path(source).suffix.lower() == ".json"


def as_it_stands(source: str | Path | bytes, target: str | Path, options: Options) -> bool:
    """Whether a dumped file is written back table by table: nothing is asked for that would change it."""
    json = options.kind == "json" or (options.kind is None and _named_json(source))
    plain = Options(level=min(options.level, 1), kind=options.kind, hints=options.hints)
    return json and not _named_onnx(target) and options in (plain, replace(plain, level=0))


def _from_json(source: Path, target: Path, check: Check | None, tell: ReportProgress) -> Report:
    """A dumped file back to what it was: no passes run, the tables are written as they stand."""
    with open_regular(source) as file:
        text = file.read()
    try:
        net = from_json(text, "Net")
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from error
    check_net(net, str(source))

    def write(path: Path) -> list[Path]:
        write_net(net, path)
        return [path]

    _, found = _written(write, target, check, tell)
    steps = tuple(Step(op.type, op.name or "", (), ()) for op in net.oplists)
    counts = dict(Counter(step.op for step in steps).most_common())
    part = Outline({}, {}, steps, counts, 0, 0)
    sizes = {target: target.stat().st_size}
    return Report(str(source), source.stat().st_size, part, part, {}, sizes, support(net), found)


def _fix_batch(graph: Graph, batch: int) -> None:
    """Sets the first size of every input that leaves it open, wherever its name appears in shapes."""
    if batch < 1:
        raise MNNError(f"--batch must be at least 1, not {batch}")
    given = [v for v in graph.inputs if not v.is_const]
    names: set[str] = {v.shape[0] for v in given if v.shape and isinstance(v.shape[0], str)}
    if not names and not any(v.shape and v.shape[0] == batch for v in given):
        sizes = ", ".join(f"'{v.name}' ({dims(v.shape)})" for v in given)
        raise MNNError(
            f"--batch {batch}: no input of this model has an open first size: {sizes}. Its batch size is fixed; leave "
            "--batch out, or export the model with an open batch size"
        )
    for value in graph.values():
        if value.shape is not None:
            value.shape = tuple(batch if d in names else d for d in value.shape)


def _fix_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Sets inputs' shapes, and what follows from them."""
    known = {v.name: v for v in graph.inputs if not v.is_const}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        value = known.get(name)
        if value is None:
            raise MNNError(f"the model has no input '{name}'; its inputs are {', '.join(known)}")
        fits = value.shape is None or (
            len(value.shape) == len(shape)
            and all(isinstance(d, str) or d == n for d, n in zip(value.shape, shape, strict=True))
        )
        if not fits or min(shape, default=1) < 1:
            raise MNNError(f"input '{name}' is {dims(value.shape)}, which cannot be fixed to {dims(shape)}")
        for size, number in zip(value.shape or (), shape, strict=False):
            if isinstance(size, str) and sizes.setdefault(size, number) != number:
                raise MNNError(f"size '{size}' would be {sizes[size]} and {number} in one model")
        value.shape = shape
    for value in graph.values():
        if value.shape is not None and value not in graph.inputs:
            value.shape = tuple(sizes.get(d, d) if isinstance(d, str) else d for d in value.shape)


def _check_static(graph: Graph) -> None:
    found = [
        v for v in graph.inputs if not v.is_const and (v.shape is None or any(isinstance(d, str) for d in v.shape))
    ]
    if found:
        listed = ", ".join(f"'{v.name}' ({dims(v.shape or ())})" for v in found)
        raise MNNError(f"--saveStaticModel: sizes are left open: {listed}; --inputConfigFile or --batch fix them")


def parse_names(text: str | Iterable[str]) -> tuple[str, ...]:
    """Names separated by commas, or several such texts."""
    parts = [text] if isinstance(text, str) else list(text)
    return tuple(n.strip() for p in parts for n in p.split(",") if n.strip())

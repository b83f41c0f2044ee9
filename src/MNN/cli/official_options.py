"""Options of the official converter that have no effect here or are refused, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import MNNError

_OFF = ("0", "false", "False")


@dataclass(frozen=True)
class OfficialOption:
    """``reason`` is told to who gives it. ``refused``: nothing is converted then, unless the value is one of
    ``harmless``. ``switch``: it may stand without a value."""

    name: str
    reason: str
    refused: bool
    switch: bool = True
    harmless: tuple[str, ...] = _OFF


_ALWAYS = (
    OfficialOption("--debug", "what was done is always told; --dumpPass tells of passes", False),
    OfficialOption("--groupConvNative", "convolutions in groups are always written as they are", False, harmless=()),
    OfficialOption("--useOriginRNNImpl", "LSTM and GRU are always written as operators of their own where the official "
                   "engine has them", False, harmless=()),
    OfficialOption("--alignDenormalizedValue", "numbers are written as they are; kernels treat denormal ones as the "
                   "processor does", False, False, ("0",)),
    OfficialOption("--transformerFuseC4", "tensors are laid out when a model is loaded, not in the file", False, False),
    OfficialOption("--transformerFuseQkvProj", "products that share an input are joined when a model is loaded", False,
                   False),
    OfficialOption("--transformerFuseGateUpProj", "products that share an input are joined when a model is loaded",
                   False, False),
    OfficialOption("--transformerFuseLnProj", "normalisations are joined to products when a model is loaded", False,
                   False),
    OfficialOption("--detectSparseSpeedUp", "weights are written dense; zeros among them save no time", False),
    OfficialOption("--useGeluApproximation", "GELU is written as the model has it: exact, or with tanh", False, False),
)  # fmt: skip
_REFUSED = (
    OfficialOption("--benchmarkModel", "a file without weights gives wrong answers; measure with mnn bench", True),
    OfficialOption("--forTraining", "convert with --optimizeLevel 0, which keeps BatchNorm and Dropout as they are",
                   True),
    OfficialOption("--weightQuantScaleBit", "scales are written with 32 bits", True, False, ("32",)),
    OfficialOption("--targetVersion", "files are written for MNN 3; older engines need a file of their own converter",
                   True, False, ()),
    OfficialOption("--customOpLibs", "operators of your own are Python classes, see MNN.ops.custom.register_operator",
                   True, False, ()),
    OfficialOption("--allowCustomOp", "an operator that nothing can run would end in a failure later; register it with "
                   "MNN.ops.custom.register_operator", True),
    OfficialOption("--splitBlockQuant", "weights in blocks are written in one piece", True),
    OfficialOption("--testconfig", "results are compared on this engine, with precision high", True, False, ()),
    OfficialOption("--rknn", "sidecars for Rockchip's processors are not written", True),
)  # fmt: skip
OPTIONS = {o.name: o for o in (*_ALWAYS, *_REFUSED)}


def taken_apart(arguments: Sequence[str]) -> list[str]:
    """What to tell of options that have no effect. Raises :class:`MNNError` for those that are refused and for
    arguments that no converter has."""
    notes, rest = [], list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        option = OPTIONS.get(name)
        if option is None and not name.startswith("-"):
            raise MNNError(f"'{name}' is no option and belongs to none; switches take 1, 0, true or false")
        if option is None:
            raise MNNError(f"there is no option {name}; mnnconvert --help lists them")
        given = bool(equals)
        if not given and rest and (rest[0] in ("1", "true", *_OFF) or not (option.switch or rest[0].startswith("-"))):
            value, given = rest.pop(0), True
        if not given and not option.switch:
            raise MNNError(f"{name} takes a value")
        if given and value in option.harmless:
            continue
        if option.refused:
            raise MNNError(f"{name} is an option of the official converter that is not taken: {option.reason}")
        notes.append(f"{name}: {option.reason}")
    return notes

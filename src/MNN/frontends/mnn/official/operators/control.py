"""The official form of the operators of ``ops/control``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import OPTIONALS, SEQUENCES
from MNN.frontends.mnn.official.record import Official, Subgraphs

OPERATORS: dict[str, Official] = {
    "ConcatFromSequence": Official(advice=SEQUENCES),
    "If": Official(table="IfParam", subgraphs=Subgraphs.BRANCHES),
    "Loop": Official(subgraphs=Subgraphs.TURNS),
    "Optional": Official(advice=OPTIONALS),
    "OptionalGetElement": Official(advice=OPTIONALS),
    "OptionalHasElement": Official(advice=OPTIONALS),
    "Scan": Official(advice="write it as a Loop, or unroll it"),
    "SequenceAt": Official(advice=SEQUENCES),
    "SequenceConstruct": Official(advice=SEQUENCES),
    "SequenceEmpty": Official(advice=SEQUENCES),
    "SequenceErase": Official(advice=SEQUENCES),
    "SequenceInsert": Official(advice=SEQUENCES),
    "SequenceLength": Official(advice=SEQUENCES),
    "SplitToSequence": Official(advice=SEQUENCES),
    "UnrolledLoop": Official(subgraphs=Subgraphs.TURNS, advice="give every carried value a shape that stays the same"),
    "UnrolledScan": Official(advice="write it as a Loop, or unroll it"),
    "While": Official(table="WhileParam", subgraphs=Subgraphs.TURNS, stands_for=("Loop", "UnrolledLoop")),
}

"""Advice that several operators share which the official engine cannot run, as data."""

from __future__ import annotations

USUAL = "run the file with this engine, or express the operator by others before exporting"
STRINGS = "tensors of text belong in front of the model: do it in the program that feeds it"
SEQUENCES = "stack the tensors (Concat, ConcatFromSequence with a known count) instead of keeping a sequence"
QUANTIZED = "convert the float model, and store its weights in 8 bits when writing the file"
RANDOM = "draw the numbers outside, and feed them as an input"
NARROW = "use f32, f16 or 8-bit integers: the official engine has no 4-bit and 8-bit floating types"
OPTIONALS = "decide outside whether there is a value, and export a model for either case"

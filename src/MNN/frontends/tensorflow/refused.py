"""Operators that are known and refused: why, and what to do."""

from __future__ import annotations

import re

_TEXT = "leave text processing outside of the model, and export what begins after it"
_TABLE = "look words up outside of the model, and export what takes their numbers"
_DATA = "export the network without its input pipeline (tf.data, queues, files)"
_TRAINING = "export the model for inference: a SavedModel's serving signature, or a frozen graph"
_PYTHON = "it calls Python, which is not in the file; write that part with TensorFlow's own operators"
_SPARSE = "turn sparse tensors into dense ones before the model's inputs"
_CUDNN = "build the network with Keras' LSTM or GRU, which load the weights of layers for cuDNN, and export that"
_QUANTIZED = "export the graph in floats, and quantise what mnn convert makes of it (or convert it for TensorFlow Lite)"
_OLD_ARRAY = "write the graph anew with TensorFlow 1.0 or later, which has TensorArrayV3 in its place"
_MACHINE = "export the graph as it was before it was rewritten for one kind of machine (oneDNN, XLA, TPU, TensorRT)"
_RULES = (
    (r"^Cudnn", _CUDNN),
    (r"^(Quantized[A-Z]|Requantiz|QuantizeDown|UniformQuanti|UniformDequanti)", _QUANTIZED),
    (r"^TensorArray([A-Z][a-z]+)?(V2)?$", _OLD_ARRAY),
    (r"^_?(Mkl|Xla|TPU|TRTEngine)", _MACHINE),
    (r"String|Regex|Substr|AsString|Unicode|DecodeBase64|EncodeBase64|Tokenize|Sentencepiece", _TEXT),
    (r"HashTable|LookupTable|InitializeTable", _TABLE),
    (r"Iterator|Dataset|Queue|Reader|ReadFile|WriteFile|ParseExample|ParseSingleExample|DecodeJpeg|DecodePng|DecodeImage"
     r"|DecodeWav|DecodeRaw|MatchingFiles", _DATA),
    (r"Grad$|Backprop|Apply[A-Z]|Save|Restore|Summary|BatchNormGrad", _TRAINING),
    (r"PyFunc|PyFunction", _PYTHON),
    (r"Sparse|Ragged", _SPARSE),
)  # fmt: skip


def advice(op: str) -> str:
    """What to do about an operator that is not supported; empty when there is nothing special about it."""
    return next((text for pattern, text in _RULES if re.search(pattern, op)), "")

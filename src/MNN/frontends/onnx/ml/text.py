"""Operators on strings, and pictures in files."""

from __future__ import annotations

from MNN.errors import UnsupportedError
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.images.decoding import FORMATS
from MNN.ops.text.regex import Pattern
from MNN.ops.text.tfidf import MODES


@onnx_op("StringConcat")
def concat(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("StringConcat", node.input(0), node.input(1))


@onnx_op("StringSplit")
def split(ctx: Context, node: OnnxNode) -> list[Value]:
    attrs = {"delimiter": node.str_attr("delimiter", ""), "maxSplit": node.int_attr("maxsplit", -1)}
    return ctx.emit("StringSplit", [node.input(0)], 2, **attrs)


@onnx_op("StringNormalizer")
def normalize(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("locale")  # upper and lower case do not depend on it here
    return ctx.op(
        "StringNormalizer",
        node.input(0),
        caseChange=node.choice_attr("case_change_action", "NONE", "NONE", "LOWER", "UPPER"),
        caseSensitive=node.bool_attr("is_case_sensitive", False),
        stopwords=node.strs_attr("stopwords", None),
    )


@onnx_op("TfIdfVectorizer")
def tfidf(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(
        "TfIdfVectorizer",
        node.input(0),
        mode=node.choice_attr("mode", "TF", *MODES),
        minLength=node.int_attr("min_gram_length"),
        maxLength=node.int_attr("max_gram_length"),
        maxSkip=node.int_attr("max_skip_count"),
        counts=node.ints_attr("ngram_counts"),
        indexes=node.ints_attr("ngram_indexes"),
        weights=node.floats_attr("weights", None),
        pool=node.strs_attr("pool_strings", None) or node.ints_attr("pool_int64s", None) or [],
    )


@onnx_op("RegexFullMatch")
def full_match(ctx: Context, node: OnnxNode) -> Value:
    pattern = node.str_attr("pattern", "")
    try:
        Pattern(pattern)
    except UnsupportedError as error:
        raise node.unsupported(str(error), "write it without that") from error
    return ctx.op("RegexFullMatch", node.input(0), pattern=pattern)


@onnx_op("ImageDecoder")
def image_decoder(ctx: Context, node: OnnxNode) -> Value:
    form = node.choice_attr("pixel_format", "RGB", *FORMATS)
    return ctx.op("ImageDecoder", node.input(0), pixelFormat=form)


@onnx_op("Tokenizer", domain="com.microsoft")
def tokenizer(ctx: Context, node: OnnxNode) -> Value:
    expression, separators = node.str_attr("tokenexp", ""), node.strs_attr("separators", None) or []
    if bool(expression) == bool(separators):
        raise node.unsupported("Tokenizer without either tokenexp or separators", "give one of them")
    for pattern in [expression] if expression else [s for s in separators if s]:
        try:
            Pattern(pattern)
        except UnsupportedError as error:
            raise node.unsupported(str(error), "write it without that") from error
    return ctx.op(
        "Tokenizer", node.input(0), expression=expression, separators=separators or None,
        padValue=node.str_attr("pad_value", ""), least=node.int_attr("mincharnum", 1),
        mark=node.bool_attr("mark", False),
    )  # fmt: skip

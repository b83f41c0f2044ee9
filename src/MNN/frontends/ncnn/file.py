"""A ``.param`` file, text or binary, as plain data: layers with their parameters, every count checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.errors import FormatError
from MNN.frontends.ncnn.layer_types import NAMES
from MNN.frontends.ncnn.params import MAX_ID, Number, Params, Raw
from MNN.frontends.ncnn_files import BINARY, MAGIC

MAX_LAYERS = 1 << 18
_MAX_LINE = 1 << 20
_ARRAY, _TEXT, _END = -23300, -23400, -233
_CUSTOM = 1 << 8
"""Set in the number of a layer that is none of ncnn's own."""


@dataclass(frozen=True)
class Layer:
    """``inputs`` and ``outputs`` are blobs by name."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    params: Params = field(default_factory=lambda: Params({}))

    @property
    def where(self) -> str:
        return f"{self.type} '{self.name}'"


def parse(data: bytes) -> list[Layer]:
    """The layers of a file. Raises :class:`FormatError` naming the line or layer that makes no sense."""
    layers = _binary(data) if data[:4] == BINARY else _text(data)
    made: set[str] = set()
    for layer in layers:
        for blob in layer.inputs:
            if blob not in made:
                raise FormatError(f"{layer.where}: nothing before it makes its input '{blob}'")
        for blob in layer.outputs:
            if blob in made:
                raise FormatError(f"{layer.where}: blob '{blob}' is made twice")
            made.add(blob)
    return layers


# -- text --------------------------------------------------------------------------------------------------------------


def _text(data: bytes) -> list[Layer]:
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"the .param file is no text: byte {error.start} is not UTF-8") from error
    rows = [(i, line.split()) for i, line in enumerate(lines, 1) if line.strip()]
    if not rows or rows[0][1] != [str(MAGIC)]:
        raise FormatError(f"a .param file begins with the line {MAGIC}; older ones are written anew by ncnn's tools")
    if len(rows) < 2 or len(rows[1][1]) != 2:
        raise FormatError(f"line 2 of a .param file has two counts, of layers and of blobs; found {rows[1:2]}")
    count = _count(rows[1][1][0], f"line {rows[1][0]}", MAX_LAYERS)
    if len(rows) - 2 != count:
        raise FormatError(f"the .param file says that it has {count} layers, found {len(rows) - 2}; is it cut off?")
    return [_layer(line, words, lines[line - 1]) for line, words in rows[2:]]


def _layer(line: int, words: list[str], text: str) -> Layer:
    where = f"line {line}"
    if len(text) > _MAX_LINE:
        raise FormatError(f"{where} of the .param file is {len(text)} characters long")
    if len(words) < 4:
        raise FormatError(f"{where}: a layer has a type, a name and two counts; found {text.strip()[:80]!r}")
    kind, name = words[:2]
    ins, outs = (_count(w, where, len(words)) for w in words[2:4])
    blobs, rest = words[4 : 4 + ins + outs], words[4 + ins + outs :]
    if len(blobs) != ins + outs or any("=" in b and b.split("=")[0].lstrip("-").isdigit() for b in blobs):
        raise FormatError(f"{where}: {kind} '{name}' should name {ins} inputs and {outs} outputs")
    return Layer(kind, name, blobs[:ins], blobs[ins:], Params(_params(rest, f"{where}: {kind} '{name}'")))


def _count(word: str, where: str, most: int) -> int:
    if not word.isascii() or not word.isdigit() or int(word[:12]) > most:
        raise FormatError(f"{where} of the .param file: {word[:40]!r} is no count that can be right here")
    return int(word)


def _params(words: list[str], where: str) -> dict[int, Number | list[Number] | str]:
    found: dict[int, Number | list[Number] | str] = {}
    pending = list(reversed(words))
    while pending:
        word = pending.pop()
        key, equals, value = word.partition("=")
        if not equals or not key.lstrip("-").isdigit() or len(key) > 8:
            raise FormatError(f"{where}: a parameter is written id=value, found {word[:60]!r}")
        number = int(key)
        if value.startswith('"'):  # a text in quotes may hold blanks
            while not (len(value) > 1 and value.endswith('"')) and pending:
                value += " " + pending.pop()
        where_key = f"{where}: parameter {key}"
        if number <= _ARRAY:
            number = _ARRAY - number
            found[_id(number, where_key)] = _old_list(value, where_key)
        elif value[:1].isalpha() or value[:1] == '"' or (value[:1] in "+-*/" and "(" in value):
            found[_id(number, where_key)] = value.strip('"')
        elif "," in value:
            found[_id(number, where_key)] = [_number(v, where_key) for v in value.split(",") if v]
        else:
            found[_id(number, where_key)] = _number(value, where_key)
    return found


def _id(number: int, where: str) -> int:
    if not 0 <= number < MAX_ID:
        raise FormatError(f"{where}: ids are 0 to {MAX_ID - 1}")
    return number


def _old_list(value: str, where: str) -> list[Number]:
    """``count,first,second...``"""
    words = value.split(",")
    count = _number(words[0], where)
    if count != len(words) - 1:
        raise FormatError(f"{where}: a list of {words[0][:20]} numbers has {len(words) - 1}")
    return [_number(w, where) for w in words[1:]]


def _number(word: str, where: str) -> Number:
    try:
        return float(word) if any(c in word for c in ".eEnN") else int(word[:16])
    except ValueError as error:
        raise FormatError(f"{where}: {word[:40]!r} is no number") from error


# -- binary ------------------------------------------------------------------------------------------------------------


class _Words:
    """32-bit words, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def bits(self) -> int:
        if self.at + 4 > len(self.data):
            raise FormatError("the .param.bin file is cut off")
        self.at += 4
        return int.from_bytes(self.data[self.at - 4 : self.at], "little")

    def word(self) -> int:
        return Raw(self.bits()).to_int()

    def count(self, what: str) -> int:
        found = self.word()
        if not 0 <= found <= (len(self.data) - self.at) // 4:
            raise FormatError(
                f"the .param.bin file has {found} {what} where only {len(self.data) - self.at} bytes are left"
            )
        return found

    def bytes(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken


def _binary(data: bytes) -> list[Layer]:
    words = _Words(data)
    words.bits()
    layers, blobs = words.count("layers"), words.word()
    found = []
    for i in range(layers):
        kind = words.word()
        ins, outs = words.count("inputs"), words.count("outputs")
        names = [_blob(words.word(), blobs) for _ in range(ins + outs)]
        found.append(Layer(_type(kind), f"{i}", names[:ins], names[ins:], Params(_binary_params(words))))
    return found


def _type(number: int) -> str:
    if number & _CUSTOM:
        return f"custom layer {number & ~_CUSTOM}"
    if not 0 <= number < len(NAMES):
        raise FormatError(f"the .param.bin file has a layer of type {number}; ncnn has {len(NAMES)} types")
    return NAMES[number]


def _blob(number: int, count: int) -> str:
    if not 0 <= number < count:
        raise FormatError(f"the .param.bin file names blob {number} of {count}")
    return f"{number}"


def _binary_params(words: _Words) -> dict[int, Number | list[Number] | str]:
    found: dict[int, Number | list[Number] | str] = {}
    while (key := words.word()) != _END:
        if key <= _TEXT:
            length = words.word()
            if not 0 <= length <= 255:
                raise FormatError(f"the .param.bin file has a text of {length} characters")
            padded = words.bytes(-(-length // 4) * 4)
            found[_id(_TEXT - key, "the .param.bin file")] = padded.rstrip(b"\0").decode("utf-8", "replace")
        elif key <= _ARRAY:
            count = words.count("numbers in a list")
            found[_id(_ARRAY - key, "the .param.bin file")] = [Raw(words.bits()) for _ in range(count)]
        else:
            found[_id(key, "the .param.bin file")] = Raw(words.bits())
    return found

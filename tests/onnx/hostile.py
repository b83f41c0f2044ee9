"""Damages a model in thousands of ways and loads every result; run as a child process by test_hostile.

``python -m tests.onnx.hostile NAME`` ends with status 0 when every load ended well or in an MNNError, in time.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator

import onnx

from MNN.errors import MNNError
from MNN.frontends.onnx import load
from tests.onnx.models import control_net, conv_net, function_net

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv_net": conv_net,
    "control_net": control_net,
    "function_net": function_net,
}
CUTS, BYTES, FIELDS = 200, 1500, 1500
SECONDS, MEMORY = 10.0, 1 << 30
NUMBERS = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1, -1, 0, 1, 2, 3, -2, 7, 100, 2**40]


def cuts(data: bytes) -> Iterator[bytes]:
    for k in range(CUTS):
        yield data[: len(data) * k // CUTS]


def byte_damage(data: bytes, rng: random.Random) -> bytes:
    """Single bytes changed, blocks overwritten, removed or repeated."""
    out = bytearray(data)
    kind, at = rng.randrange(4), rng.randrange(len(out))
    length = rng.choice([1, 2, 4, 8, 64])
    if kind == 0:
        for _ in range(rng.choice([1, 1, 2, 4])):
            out[rng.randrange(len(out))] = rng.randrange(256)
    elif kind == 1:
        out[at : at + length] = bytes(rng.randrange(256) for _ in range(length))
    elif kind == 2:
        del out[at : at + length]
    else:
        start = rng.randrange(len(out))
        out[at:at] = out[start : start + length]
    return bytes(out)


def messages(message: object) -> Iterator[object]:
    """A protobuf message and all messages inside of it."""
    yield message
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        if field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from messages(inner)


def field_damage(data: bytes, rng: random.Random) -> bytes:
    """One field of one message gets another value of its type, or is removed: the file stays readable."""
    proto = onnx.ModelProto.FromString(data)
    names = [n.op_type for n in proto.graph.node] + [i for n in proto.graph.node for i in (*n.input, *n.output)]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        message = rng.choice(list(messages(proto)))
        fields = list(message.ListFields())  # type: ignore[attr-defined]
        if not fields:
            continue
        field, value = rng.choice(fields)
        if rng.random() < 0.15:
            message.ClearField(field.name)  # type: ignore[attr-defined]
            continue
        fresh: object
        if field.type == field.TYPE_STRING:
            fresh = rng.choice([*names, "", "Loop", "Reshape", "EyeLike", "Scan"])
        elif field.type == field.TYPE_BYTES:
            fresh = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
        elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            fresh = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
        elif field.type == field.TYPE_MESSAGE:
            if not hasattr(value, "ListFields") and len(value):
                del value[rng.randrange(len(value))]
            continue
        else:
            fresh = rng.choice(NUMBERS)
        try:
            if hasattr(value, "append"):
                value[rng.randrange(len(value))] = fresh
            else:
                setattr(message, field.name, fresh)
        except (ValueError, TypeError):  # out of the field's range
            continue
    return bytes(proto.SerializeToString())


def variants(data: bytes) -> Iterator[tuple[str, bytes]]:
    rng = random.Random(7)
    yield from ((f"cut {i}", damaged) for i, damaged in enumerate(cuts(data)))
    yield from ((f"bytes {i}", byte_damage(data, rng)) for i in range(BYTES))
    yield from ((f"fields {i}", field_damage(data, rng)) for i in range(FIELDS))


def main(name: str) -> int:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY * 4, MEMORY * 4))  # address space; libraries map a lot of it
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = MODELS[name]().SerializeToString()
    loaded = refused = 0
    for label, damaged in variants(data):
        start = time.monotonic()
        try:
            load(damaged)
            loaded += 1
        except MNNError:
            refused += 1
        except BaseException:
            print(f"{name}, {label}:", flush=True)
            raise
        if time.monotonic() - start > SECONDS:
            print(f"{name}, {label}: took {time.monotonic() - start:.1f} s")
            return 1
    if sys.platform != "win32":
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        if grown > MEMORY:
            print(f"{name}: {grown >> 20} MB")
            return 1
    print(f"{name}: {loaded} loaded, {refused} refused")
    return 0 if loaded and refused else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

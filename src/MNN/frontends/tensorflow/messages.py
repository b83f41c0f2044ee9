"""TensorFlow's protobuf messages, built while running from the table below: nothing of TensorFlow is needed to read its
files.

The table holds the fields that this front end reads (field numbers are TensorFlow's); protobuf skips all others.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from MNN.errors import FormatError

Proto: TypeAlias = Any
"""A message of a class that exists only while running."""

_PACKAGE = "mnn.tensorflow"
# "name number type", repeated ones with *, maps as "map<key,value>", members of a oneof with ?
_TABLE = {
    "Dim": "size 1 int64; name 2 string",
    "TensorShapeProto": "dim 2 *Dim; unknown_rank 3 bool",
    "TensorProto": (
        "dtype 1 int32; tensor_shape 2 TensorShapeProto; tensor_content 4 bytes; half_val 13 *int32;"
        "float_val 5 *float; double_val 6 *double; int_val 7 *int32; string_val 8 *bytes; int64_val 10 *int64;"
        "scomplex_val 9 *float; dcomplex_val 12 *double; bool_val 11 *bool; uint32_val 16 *uint32;"
        "uint64_val 17 *uint64"
    ),
    "ListValue": (
        "s 2 *bytes; i 3 *int64; f 4 *float; b 5 *bool; type 6 *int32; shape 7 *TensorShapeProto;"
        "tensor 8 *TensorProto; func 9 *NameAttrList"
    ),
    "NameAttrList": "name 1 string; attr 2 map<string,AttrValue>",
    "AttrValue": (
        "list 1 ?ListValue; s 2 ?bytes; i 3 ?int64; f 4 ?float; b 5 ?bool; type 6 ?int32; shape 7 ?TensorShapeProto;"
        "tensor 8 ?TensorProto; placeholder 9 ?string; func 10 ?NameAttrList"
    ),
    "NodeDef": "name 1 string; op 2 string; input 3 *string; device 4 string; attr 5 map<string,AttrValue>",
    "ArgDef": "name 1 string; type 3 int32; type_attr 4 string; number_attr 5 string; type_list_attr 6 string",
    "OpDef": "name 1 string; input_arg 2 *ArgDef; output_arg 3 *ArgDef",
    "FunctionDef": (
        "signature 1 OpDef; attr 5 map<string,AttrValue>; node_def 3 *NodeDef; ret 4 map<string,string>;"
        "control_ret 6 map<string,string>"
    ),
    "FunctionDefLibrary": "function 1 *FunctionDef",
    "VersionDef": "producer 1 int32; min_consumer 2 int32",
    "GraphDef": "node 1 *NodeDef; library 2 FunctionDefLibrary; version 3 int32; versions 4 VersionDef",
    "TensorInfo": "name 1 string; dtype 2 int32; tensor_shape 3 TensorShapeProto",
    "SignatureDef": (
        "inputs 1 map<string,TensorInfo>; outputs 2 map<string,TensorInfo>; method_name 3 string;"
        "defaults 4 map<string,TensorProto>"
    ),
    "SaverDef": "filename_tensor_name 1 string; save_tensor_name 2 string; restore_op_name 3 string",
    "MetaInfoDef": "tags 4 *string; tensorflow_version 5 string",
    "MetaGraphDef": (
        "meta_info_def 1 MetaInfoDef; graph_def 2 GraphDef; saver_def 3 SaverDef;"
        "signature_def 5 map<string,SignatureDef>; object_graph_def 7 SavedObjectGraph"
    ),
    "ObjectReference": "node_id 1 int32; local_name 2 string",
    "SavedObject": "children 1 *ObjectReference",
    "SavedConcreteFunction": "bound_inputs 2 *int32",
    "SavedObjectGraph": "nodes 1 *SavedObject; concrete_functions 2 map<string,SavedConcreteFunction>",
    "SerializedTensor": "name 1 string; full_name 2 string; checkpoint_key 3 string",
    "TrackableObject": "children 1 *ObjectReference; attributes 2 *SerializedTensor",
    "TrackableObjectGraph": "nodes 1 *TrackableObject",
    "SavedModel": "saved_model_schema_version 1 int64; meta_graphs 2 *MetaGraphDef",
    "BundleHeaderProto": "num_shards 1 int32; endianness 2 int32",
    "BundleEntryProto": (
        "dtype 1 int32; shape 2 TensorShapeProto; shard_id 3 int32; offset 4 int64; size 5 int64; crc32c 6 fixed32;"
        "slices 7 *TensorShapeProto"
    ),
}  # fmt: skip
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _FIELD.TYPE_INT32, "int64": _FIELD.TYPE_INT64, "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64, "bool": _FIELD.TYPE_BOOL, "float": _FIELD.TYPE_FLOAT,
    "double": _FIELD.TYPE_DOUBLE, "bytes": _FIELD.TYPE_BYTES, "string": _FIELD.TYPE_STRING,
    "fixed32": _FIELD.TYPE_FIXED32,
}  # fmt: skip


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _add_field(message: descriptor_pb2.DescriptorProto, text: str) -> None:
    name, number, kind = text.split(" ", 2)
    field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
    if kind.startswith("map<"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for i, part in enumerate(kind[4:-1].split(",")):
            inner = entry.field.add(name=("key", "value")[i], number=i + 1, label=_FIELD.LABEL_OPTIONAL)
            _set_type(inner, part)
        field.label, field.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        return
    if kind[0] == "*":
        field.label = _FIELD.LABEL_REPEATED
    if kind[0] == "?":
        field.oneof_index = 0
    _set_type(field, kind.lstrip("*?"))


def _build() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="mnn/tensorflow.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _TABLE.items():
        message = file.message_type.add(name=name)
        if "?" in fields:
            message.oneof_decl.add(name="value")
        for text in fields.split(";"):
            _add_field(message, text.strip())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(found[name]) for name in _TABLE}


_CLASSES = _build()


def parse(name: str, data: bytes, what: str) -> Proto:
    """The message ``name`` (a key of the table) in ``data``; ``what`` names the data in errors.

    Raises :class:`FormatError` for data that is no such message; protobuf itself bounds how deep messages may nest.
    """
    message = _CLASSES[name]()
    try:
        message.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{what} is no TensorFlow {name}, or a part of it is missing or damaged ({len(data)} bytes): "
            f"download or export it again ({error})"
        ) from error
    return message


def new(name: str) -> Proto:
    """An empty message."""
    return _CLASSES[name]()

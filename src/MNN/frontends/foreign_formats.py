"""Files that this engine does not read, by their first bytes: what they are, and how a model comes out of them."""

from __future__ import annotations

from dataclasses import dataclass

_TORCH = "save its network with torch.export.save(torch.export.export(model, inputs), 'model.pt2'), and convert that"
_KERAS = "save the whole model in Keras: model.save('model.keras')"
_WEIGHTS = "it holds weights without a graph: load them into the network in its framework, and export that to ONNX"
_AGAIN = "download the model itself"
_MXNET = "export it with mxnet.onnx.export_model, in an environment with MXNet 1.9, and convert the ONNX file"
_PADDLE = "export it with paddle2onnx (--model_dir, --model_filename, --params_filename), and convert the ONNX file"
_DARKNET = (
    "export it to ONNX with its own code in PyTorch (YOLO networks have such), or to ncnn with ncnn's darknet2ncnn"
)
_TFJS = "export the network that it was made from, with tf.saved_model.save or model.export('folder'), and convert that"
_SAVED_AS_TEXT = "write it as numbers: tf.io.write_graph(graph, folder, 'model.pb', as_text=False)"
_CHECKPOINT = (
    "give the graph beside it (.meta), or the folder of a SavedModel; in a program, tf.saved_model.save writes one"
)
_PICTURE = "a model file is expected here; pictures are given with --input NAME=FILE, or as arrays"


@dataclass(frozen=True)
class Elsewhere:
    """A kind of file: what it is called, how it is known, and what to do with it."""

    what: str
    advice: str
    start: bytes = b""
    at: int = 0
    suffixes: tuple[str, ...] = ()
    holds: bytes = b""
    """What lies somewhere in its first bytes."""

    def fits(self, head: bytes, suffix: str) -> bool:
        """Whether a file with these first bytes and this suffix is one."""
        begins = head[self.at : self.at + len(self.start)].lower() == self.start.lower()
        return begins and self.holds in head and (not self.suffixes or suffix in self.suffixes)


_FILES = (
    Elsewhere("a Git LFS pointer and not the file it points to", "fetch the file with git lfs pull", b"version https://git-lfs"),
    Elsewhere("a picture (PNG)", _PICTURE, b"\x89PNG\r\n"),
    Elsewhere("a picture (JPEG)", _PICTURE, b"\xff\xd8\xff"),
    Elsewhere("a picture (GIF)", _PICTURE, b"GIF8"),
    Elsewhere("a picture (WebP)", _PICTURE, b"WEBP", 8),
    Elsewhere("a picture (TIFF)", _PICTURE, b"II*\0"),
    Elsewhere("a picture (TIFF)", _PICTURE, b"MM\0*"),
    Elsewhere("a numpy array", "a model file is expected here; arrays are given with --input NAME=FILE", b"\x93NUMPY"),
    Elsewhere("a PDF document", _AGAIN, b"%PDF-"),
    Elsewhere("a web page", _AGAIN, b"<!doctype html"),
    Elsewhere("a web page", _AGAIN, b"<html"),
    Elsewhere("a zip archive that is no Keras model", _KERAS, b"PK\x03\x04", 0, (".keras",)),
    Elsewhere("no archive, as a Keras model of this name is", _KERAS, b"", 0, (".keras",)),
    Elsewhere("a TensorFlow graph written as text", _SAVED_AS_TEXT, b"node {"),
    Elsewhere("a part of a TensorFlow checkpoint", _CHECKPOINT, b"", 0, (".index", ".data-00000-of-00001")),
    Elsewhere("a PyTorch file", _TORCH, b"\x80", 0, (".pt", ".pth", ".bin", ".ckpt")),
    Elsewhere("a zip archive", "unpack it, and convert the model inside", b"PK\x03\x04"),
    Elsewhere("a compressed file", "unpack it, and convert the model inside", b"\x1f\x8b"),
    Elsewhere("a pickled Python object", "export what is in it to ONNX", b"\x80", 0, (".pkl", ".joblib")),
    Elsewhere("a GGUF file", _WEIGHTS, b"GGUF"),
    Elsewhere("a safetensors file", _WEIGHTS, b"{", 8, (".safetensors",)),
    Elsewhere("an OpenVINO model", "convert the model that it was made from", b"<?xml"),
    Elsewhere("a Core ML model", "convert the model that it was made from", b"", 0, (".mlmodel", ".mlpackage")),
    Elsewhere("a PaddlePaddle model", _PADDLE, b"", 0, (".pdmodel", ".pdiparams")),
    Elsewhere("a PaddlePaddle model", _PADDLE, b"{", 0, (".json",), b'"base_code"'),
    Elsewhere("an MXNet model", _MXNET, b"{", 0, (".json",), b'"op": "null"'),
    Elsewhere("the weights of an MXNet model", _MXNET, b"\x12\x01\0\0\0\0\0\0"),
    Elsewhere("a Darknet model", _DARKNET, b"[net]"),
    Elsewhere("a Darknet model", _DARKNET, b"", 0, (".cfg", ".weights")),
    Elsewhere("a TensorFlow.js model", _TFJS, b"{", 0, (".json",), b'"weightsManifest"'),
)  # fmt: skip


def elsewhere(head: bytes, suffix: str) -> str:
    """What a file that starts with ``head`` is, and what to do; empty when nothing is known of it."""
    found = next((f for f in _FILES if f.fits(head, suffix)), None)
    return "" if found is None else f"{found.what}: {found.advice}"

"""A language model of a GGUF file for ONNX Runtime's generate() API: the same numbers in 4 and 8 bits.

    python -m benchmarks.language_genai model.gguf FOLDER

Written is what Microsoft's model builder writes: ``GroupQueryAttention`` with rotary positions, ``MatMulNBits`` with
activations in 8 bits (``accuracy_level`` 4), norms of ONNX Runtime, and logits of the last token alone. Known are the
architectures that :mod:`benchmarks.language_random` writes, but for mixtures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.files import open_weights, read_config
from MNN.llm.models.config import Config

LONGEST, OURS = 4096, "com.microsoft"


class Network:
    """The nodes and weights of a graph that is written."""

    def __init__(self, weights: LoadedWeights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def const(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def vector(self, name: str) -> str:
        found = self.weights[name]
        return self.const(np.asarray(found.dequantize() if isinstance(found, QuantizedArray) else found, np.float32))

    def norm(self, x: str, name: str, epsilon: float) -> str:
        found: str = self.op("SimplifiedLayerNormalization", x, self.vector(f"{name}.weight"), epsilon=epsilon, axis=-1)
        return found

    def linear(self, x: str, name: str) -> str:
        weight = self.weights[f"{name}.weight"]
        if isinstance(weight, QuantizedArray):
            rows, cols = weight.shape[0], weight.cols
            blocks, bits = weight.scale.shape[1], weight.width
            codes = weight.codes.reshape(rows, blocks, -1)
            given = [x, self.const(codes), self.const(weight.scale.reshape(-1))]
            if weight.offset is not None:
                middle = np.float32(1 << (bits - 1))
                given.append(self.const((middle - weight.offset / weight.scale).astype(np.float32).reshape(-1)))
            out: str = self.op(
                "MatMulNBits",
                *given,
                domain=OURS,
                K=cols,
                N=rows,
                bits=bits,
                block_size=cols // blocks,
                accuracy_level=4,
            )
        else:
            out = self.op("MatMul", x, self.const(np.asarray(weight, np.float32).T))
        return self.op("Add", out, self.vector(f"{name}.bias")) if f"{name}.bias" in self.weights else out


def network(weights: LoadedWeights, told: Config) -> onnx.ModelProto:
    """The model. Raises KeyError for architectures whose weights have other names."""
    net, heads, eps = Network(weights), told.heads(), told.epsilon
    angles = np.arange(LONGEST, dtype=np.float32)[:, None] * told.rotary(heads.size).turns
    cos, sin = net.const(np.cos(angles)), net.const(np.sin(angles))
    seen = net.op("ReduceSum", "attention_mask", net.const(np.array([1])), keepdims=0)
    last = net.op("Cast", net.op("Sub", seen, net.const(np.array([1]))), to=TensorProto.INT32)
    total = net.op("Gather", net.op("Shape", "attention_mask"), net.const(np.array(1)))
    total = net.op("Cast", total, to=TensorProto.INT32)
    table = weights["model.embed_tokens.weight"]
    plain = table.dequantize() if isinstance(table, QuantizedArray) else table
    x = net.op("Cast", net.op("Gather", net.const(np.asarray(plain, np.float16)), "input_ids"), to=TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", s])
              for n, s in (("input_ids", "sequence"), ("attention_mask", "total"))]  # fmt: skip
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1, plain.shape[0]])]
    for i in range(told.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (net.linear(y, f"{at}.self_attn.{name}_proj") for name in "qkv")
        if f"{at}.self_attn.q_norm.weight" in weights:
            q, k = (_heads_normed(net, t, f"{at}.self_attn.{n}_norm", heads.size, eps) for t, n in ((q, "q"), (k, "k")))
        past = [f"past_key_values.{i}.{name}" for name in ("key", "value")]
        out, *present = net.op(
            "GroupQueryAttention", q, k, v, *past, last, total, cos, sin, outputs=3, domain=OURS, do_rotary=1,
            num_heads=heads.count, kv_num_heads=heads.groups, rotary_interleaved=0,
        )  # fmt: skip
        for before, after, name in zip(past, present, ("key", "value"), strict=True):
            inputs.append(helper.make_tensor_value_info(
                before, TensorProto.FLOAT, ["batch", heads.groups, "past", heads.size]))  # fmt: skip
            net.nodes[-1].output[1 if name == "key" else 2] = f"present.{i}.{name}"
            outputs.append(helper.make_tensor_value_info(
                f"present.{i}.{name}", TensorProto.FLOAT, ["batch", heads.groups, "total", heads.size]))  # fmt: skip
            del after
        x = net.op("Add", x, net.linear(out, f"{at}.self_attn.o_proj"))
        y = net.norm(x, f"{at}.post_attention_layernorm", eps)
        gate = net.linear(y, f"{mlp}.gate_proj")
        gate = net.op("Mul", gate, net.op("Sigmoid", gate))
        x = net.op("Add", x, net.linear(net.op("Mul", gate, net.linear(y, f"{mlp}.up_proj")), f"{mlp}.down_proj"))
    x = net.op("Gather", x, net.const(np.array([-1])), axis=1)
    own = "lm_head" if "lm_head.weight" in weights else "model.embed_tokens"
    net.linear(net.norm(x, "model.norm", eps), own)
    net.nodes[-1].output[0] = "logits"
    graph = helper.make_graph(net.nodes, "language model", inputs, outputs, net.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(OURS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _heads_normed(net: Network, x: str, name: str, size: int, epsilon: float) -> str:
    each = net.op("Reshape", x, net.const(np.array([0, 0, -1, size])))
    found: str = net.op("Reshape", net.norm(each, name, epsilon), net.const(np.array([0, 0, -1])))
    return found


def write(model: Path, folder: Path) -> None:
    """The folder: ``model.onnx`` with its weights beside it, and ``genai_config.json``."""
    values = read_config(model)
    told = Config(values)
    heads = told.heads()
    folder.mkdir(parents=True, exist_ok=True)
    made = network(LoadedWeights(open_weights(model)), told)
    (folder / "model.onnx.data").unlink(missing_ok=True)
    onnx.save_model(made, str(folder / "model.onnx"), save_as_external_data=True, location="model.onnx.data")
    kinds = ("key", "value")
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []}, "filename": "model.onnx",
        "head_size": heads.size, "hidden_size": told.width, "num_attention_heads": heads.count,
        "num_hidden_layers": told.layers, "num_key_value_heads": heads.groups,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"}
        | {f"past_{kind}_names": f"past_key_values.%d.{kind}" for kind in kinds},
        "outputs": {"logits": "logits"} | {f"present_{kind}_names": f"present.%d.{kind}" for kind in kinds},
    }  # fmt: skip
    end = int(values.get("eos_token_id") or 0)
    whole = {
        "bos_token_id": end, "eos_token_id": end, "pad_token_id": end, "context_length": LONGEST, "type": "qwen2",
        "vocab_size": int(values["vocab_size"]), "decoder": decoder,
    }  # fmt: skip
    search = {"max_length": LONGEST, "do_sample": False, "past_present_share_buffer": True}
    (folder / "genai_config.json").write_text(json.dumps({"model": whole, "search": search}, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    write(given.model, given.folder)


if __name__ == "__main__":
    main()

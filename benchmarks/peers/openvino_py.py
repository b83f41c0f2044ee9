"""OpenVINO, CPU plugin, latency hint; its default precision is bf16 where the processor has it, so fp32 is stated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import openvino
from openvino import properties
from openvino.properties import hint

from .interface import Array


class Engine:
    def __init__(self, threads: int, precision: str) -> None:
        self.core = openvino.Core()
        self.config = {
            properties.inference_num_threads: threads,
            hint.performance_mode: hint.PerformanceMode.LATENCY,
            hint.num_requests: 1,
            properties.num_streams: 1,
            hint.enable_cpu_pinning: False,  # the driver pins the process
        }
        if precision != "low":
            self.config[hint.inference_precision] = openvino.Type.f32

    def version(self) -> str:
        return str(openvino.__version__).split("-")[0]

    def load(self, model: Path, inputs: Mapping[str, Array], outputs: list[str]) -> None:
        network = self.core.read_model(str(model))
        network.reshape({name: list(data.shape) for name, data in inputs.items()})
        self.compiled = self.core.compile_model(network, "CPU", self.config)
        self.request = self.compiled.create_infer_request()
        self.names = outputs
        self.ports = [self.compiled.output(name) for name in outputs]

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        for name, data in inputs.items():
            self.request.set_tensor(name, openvino.Tensor(data))

    def run(self) -> None:
        self.request.infer()

    def outputs(self) -> dict[str, Array]:
        return {n: self.request.get_tensor(p).data.copy() for n, p in zip(self.names, self.ports, strict=True)}

    def details(self) -> dict[str, str]:
        """The precision it says it infers in, and the kernels it really took for products and convolutions."""
        kinds: Counter[str] = Counter()
        for node in self.compiled.get_runtime_model().get_ops():
            about = node.get_rt_info()
            if about["layerType"].astype(str) in ("Convolution", "FullyConnected", "MatMul"):
                kinds[about["primitiveType"].astype(str)] += 1
        stated = self.compiled.get_property(hint.inference_precision).to_string()
        kernels = ", ".join(f"{name} x{count}" for name, count in kinds.most_common())
        return {"precision": str(stated), "kernels": kernels}

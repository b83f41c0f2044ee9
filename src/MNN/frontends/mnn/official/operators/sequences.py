"""The official form of the operators of ``ops/sequences``."""

from __future__ import annotations

from MNN.frontends.mnn.official import stored
from MNN.frontends.mnn.official.record import Official
from MNN.frontends.mnn.official.rules import attention, recurrent

OPERATORS: dict[str, Official] = {
    "Attention": Official(table="AttentionParam"),
    "ContribAttention": Official(advice="export the model before ONNX Runtime's optimiser joined its attention"),
    "ContribRotaryEmbedding": Official(
        advice="export the model before ONNX Runtime's optimiser joined its rotary embedding"
    ),
    "DynamicQuantizeLSTM": Official(
        rule=recurrent.quantized, advice="use the activations sigmoid and tanh, without clipping"
    ),
    "GroupQueryAttention": Official(advice="export the attention as MatMul and Softmax, or use this engine"),
    "LSTM": Official(table="LSTM"),
    "OnnxAttention": Official(rule=attention.attention),
    "OnnxGRU": Official(rule=recurrent.recurrent, advice="use the activations sigmoid and tanh, without clipping"),
    "OnnxLSTM": Official(rule=recurrent.usual_first, advice="use the activations sigmoid and tanh, without clipping"),
    "OnnxRNN": Official(rule=recurrent.usual_first, advice="use the activation tanh or relu, without clipping"),
    "RNN": Official(table="LSTM"),
    "RoPE": Official(table="RoPEParam", read=stored.rotary),
}

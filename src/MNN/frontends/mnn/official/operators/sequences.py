"""The official form of the operators of ``ops/sequences``."""

from __future__ import annotations

from MNN.frontends.mnn.official.record import Official

OPERATORS: dict[str, Official] = {
    "Attention": Official(table="AttentionParam"),
    "ContribAttention": Official(advice="export the model before ONNX Runtime's optimiser joined its attention"),
    "ContribRotaryEmbedding": Official(
        advice="export the model before ONNX Runtime's optimiser joined its rotary embedding"
    ),
    "DynamicQuantizeLSTM": Official(advice="use the activations sigmoid and tanh, without clipping"),
    "GroupQueryAttention": Official(advice="export the attention as MatMul and Softmax, or use this engine"),
    "LSTM": Official(table="LSTM"),
    "OnnxGRU": Official(advice="use the activations sigmoid and tanh, without clipping"),
    "OnnxLSTM": Official(advice="use the activations sigmoid and tanh, without clipping"),
    "OnnxRNN": Official(advice="use the activation tanh or relu, without clipping"),
    "RNN": Official(table="LSTM"),
    "RNNSequenceGRU": Official(table="RNNParam"),
}

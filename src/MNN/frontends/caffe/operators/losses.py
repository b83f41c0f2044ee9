"""Layers of training, as they are in use: those that end in probabilities give them, others are left out."""

from __future__ import annotations

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.ir.graph import Value

READ_NOTHING = frozenset({
    "Accuracy", "ContrastiveLoss", "DetectionEvaluate", "EuclideanLoss", "HDF5Output", "HingeLoss", "MultiBoxLoss",
    "MultinomialLogisticLoss", "SmoothL1Loss", "TripletLoss",
})  # fmt: skip
"""Layers that are left out: what they would read are outputs of the network."""


@caffe_layer("SoftmaxWithLoss", "InfogainLoss")
def softmax_with_loss(ctx: Context, node: CaffeNode) -> list[Value]:
    param = node.layer.message.message("softmax_param" if node.op == "SoftmaxWithLoss" else "infogain_loss_param")
    axis = node.axis(param.integer("axis", 1))
    return [ctx.op("Softmax", node.input(0), axis=axis) for _ in range(node.outputs)]


@caffe_layer("SigmoidCrossEntropyLoss")
def sigmoid_cross_entropy_loss(ctx: Context, node: CaffeNode) -> Value:
    return ctx.op("Sigmoid", node.input(0))


@caffe_layer("Silence")
def silence(ctx: Context, node: CaffeNode) -> list[Value]:
    """Reads blobs so that they are no outputs."""
    return []

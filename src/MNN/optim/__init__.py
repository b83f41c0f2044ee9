"""Optimisers: a training step is one native call.

opt = MNN.optim.SGD(net, 0.01, 0.9)
opt.step(loss)          # forward, backward and update of everything that the loss depends on
"""

from MNN.optim.groups import Group
from MNN.optim.methods import ADAM, SGD, AdamW, Grad, Lion, RMSprop
from MNN.optim.optimizer import Optimizer
from MNN.optim.regularization import Regularization_Method

L1, L2, L1L2 = Regularization_Method.L1, Regularization_Method.L2, Regularization_Method.L1L2

__all__ = [
    "ADAM", "L1", "L1L2", "L2", "SGD", "AdamW", "Grad", "Group", "Lion", "Optimizer", "RMSprop",
    "Regularization_Method",
]  # fmt: skip

"""Training in three lines:

model = Net()
history = MNN.train.fit(model, (images, labels), epochs=3)
MNN.train.export(model, "net.mnn", [1, 1, 28, 28])
"""

from MNN.optim import schedules
from MNN.train.export import export
from MNN.train.fit import evaluate, fit
from MNN.train.history import History
from MNN.train.plot import plot

__all__ = ["History", "evaluate", "export", "fit", "plot", "schedules"]

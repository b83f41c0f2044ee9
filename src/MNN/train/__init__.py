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
from MNN.train.program import TrainingProgram, save_program

__all__ = [
    "History", "TrainingProgram", "evaluate", "export", "fit", "plot", "save_program", "schedules",
]  # fmt: skip

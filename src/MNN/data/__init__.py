"""Data for training: a :class:`Dataset` says what there is, a :class:`DataLoader` gives it in batches."""

from MNN.data.dataset import ArrayDataset, Dataset
from MNN.data.loader import DataLoader
from MNN.data.pictures import Look, Pictures

__all__ = ["ArrayDataset", "DataLoader", "Dataset", "Look", "Pictures"]

"""The .mnn format as a front end: files to graphs, graphs to files."""

from MNN.frontends.mnn.read import graph_of, load, load_tensors
from MNN.frontends.mnn.write import net_of, write_mnn

__all__ = ["graph_of", "load", "load_tensors", "net_of", "write_mnn"]

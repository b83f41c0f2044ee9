"""The .mnn format as a front end: files to graphs, graphs to files."""

from MNN.frontends.mnn.read import graph_of, load
from MNN.frontends.mnn.write import net_of, write_mnn

__all__ = ["graph_of", "load", "net_of", "write_mnn"]

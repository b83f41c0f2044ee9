"""Model files of all kinds to graphs: ``load_graph`` looks at what a file holds and calls the front end for it."""

from MNN.frontends.registry import NOTHING, Hints, Kind, file_of, kind_of, kinds, load_graph, register_kind

__all__ = ["NOTHING", "Hints", "Kind", "file_of", "kind_of", "kinds", "load_graph", "register_kind"]

"""Handlers of Caffe's layers, one file per family."""

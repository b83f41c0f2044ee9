"""Caffe networks: layers on random parameters beside OpenCV and numpy, whole networks, files of all ages."""

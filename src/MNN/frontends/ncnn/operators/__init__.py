"""Handlers for ncnn's layers, one file per family; importing a file enters them in the registry."""

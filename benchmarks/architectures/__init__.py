"""Well-known network architectures with random weights, written for export by torch.

``catalog`` lists them without needing torch; each other file builds one family and is imported only to export it.
The weights are random but seeded and kept in range (see ``weights``), so that times and numerical errors are those of a
trained network of the same shape while no download is needed.
"""

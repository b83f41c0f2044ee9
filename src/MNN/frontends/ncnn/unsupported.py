"""Layers of ncnn without a handler, with what to do."""

ADVICE = {
    "InverseSpectrogram": "leave it out, and turn the spectrum back into sound after the run",
    "SPP": "train the network with adaptive pooling in its place",
    "Proposal": "cut the network at its inputs, and choose regions between two runs",
    "PSROIPooling": "cut the network at its inputs, and pool regions after the run",
}

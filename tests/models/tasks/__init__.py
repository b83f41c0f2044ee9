"""One file per trained model: its preparation of inputs, its reading of outputs, and the right answer."""

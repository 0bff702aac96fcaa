"""The rivals of the paper's Table 2: recurrent, convolutional, and dilated convolutional models."""

"""The rivals of the paper's Table 2: recurrent, convolutional, and with dilated convolutions."""

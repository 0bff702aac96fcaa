"""The paper's tables and figures, recomputed by `allyouneed reproduce`."""

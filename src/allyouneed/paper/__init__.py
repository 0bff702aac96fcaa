"""What `allyouneed reproduce` runs: the tables and figures of the paper, computed again."""

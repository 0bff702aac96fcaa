"""One file per protocol: its endpoints, its errors and its treatment of unknown fields, on the same service."""

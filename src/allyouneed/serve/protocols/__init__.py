"""One file per protocol on the same service: its endpoints, its errors, its treatment of unknown fields."""

"""The cost of a run: estimated before it, and recorded after it."""

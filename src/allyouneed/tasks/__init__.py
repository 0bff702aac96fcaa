"""What models are trained to do, and everything that works the same way for every task."""

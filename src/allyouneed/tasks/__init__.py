"""The tasks that models are trained for, and the code that all tasks share."""

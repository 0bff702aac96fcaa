"""Pages for people: the explorer of attention, one file that loads nothing, and parts of other pages."""

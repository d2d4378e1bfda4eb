"""Planning: what a model can do, which plan follows from it, and how to probe it."""

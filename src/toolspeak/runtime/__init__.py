"""IO around the engine: run a turn, resolve a model, probe it, bridge to synchronous code."""

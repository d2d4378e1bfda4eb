"""The agent loop: a state machine, the checks before a call runs, and the stored conversation."""

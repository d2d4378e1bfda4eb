"""The agent loop as a state machine: rounds, call checks, transcript."""

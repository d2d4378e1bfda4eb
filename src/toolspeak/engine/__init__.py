"""Pure decisions above dialects and protocols: turns, prompts, plans, constraints, rounds, refusals."""

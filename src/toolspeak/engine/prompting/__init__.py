"""Prompts that describe tools, history and rules as text to a model without native tool calling."""

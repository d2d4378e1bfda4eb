"""Prompts: tools, history and rules as text for a model without native tool calling."""

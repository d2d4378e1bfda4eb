"""Refusal detection: distinguish an answer that refuses to use tools from an ordinary answer."""

"""Schemas of tool arguments: validation, coercion, error messages."""

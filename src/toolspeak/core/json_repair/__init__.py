"""Incremental, forgiving JSON parser; every repair becomes a note."""

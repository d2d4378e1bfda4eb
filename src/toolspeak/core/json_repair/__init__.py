"""Incremental, tolerant JSON parser; every repair becomes a note."""

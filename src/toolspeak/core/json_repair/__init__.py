"""Incremental, tolerant JSON parser that reports every repair as a note."""

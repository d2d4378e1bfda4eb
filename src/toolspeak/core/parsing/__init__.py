"""Parsing of model text into events: scanner, call builder, acceptance rules."""

"""Constraints: JSON schemas and grammars for upstreams that enforce them."""

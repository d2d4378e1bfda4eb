"""Observability: request context, logs, metrics, traces."""

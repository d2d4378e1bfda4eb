"""A template for plugins of toolspeak."""

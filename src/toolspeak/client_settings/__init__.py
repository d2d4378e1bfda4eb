"""Settings that point known clients at a toolspeak server. See `table`."""

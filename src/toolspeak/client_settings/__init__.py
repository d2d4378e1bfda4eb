"""Settings for clients: how each is pointed at a server, as data. See `table`."""

"""Tools that the proxy itself runs: the tool loop, its memory, and the configured tools."""

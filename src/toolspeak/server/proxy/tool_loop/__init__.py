"""Tools that the proxy runs itself: the loop, its memory, its progress events."""

"""The proxied exchange: client request, upstream calls, response."""

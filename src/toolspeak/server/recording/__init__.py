"""What is kept of requests, in memory and beyond, and how people see it: the inspector's side of the server.

Above: `app`, the page, `toolspeak explain`. Below: the exchange and its trace.
"""

"""Tools that the server itself runs: whose they are, the rounds they are called in, and what is told of them.

Above: `gateway`, `exchange`. Below: the tools, the turns.
"""

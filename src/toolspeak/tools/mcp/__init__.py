"""Tools of MCP servers: which there are, how they are reached, what they may say, and what was approved of it.

Above: the agent, the proxy's loop, the command line. Below: the official SDK, imported when a server is named.
"""

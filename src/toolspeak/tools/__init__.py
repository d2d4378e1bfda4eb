"""Tools that an agent can run: Python functions, the shell, files, MCP servers, and wrappers around any of them.

Above: the agent, the server's own loop, the command line. Below: `core`, `config`. Everything here touches the
world; nothing here decides when a tool runs.
"""

"""Tools that an agent can run: Python functions, the shell, files, MCP servers, and wrappers around any of them. Everything here touches the
world; nothing here decides when a tool runs.
"""

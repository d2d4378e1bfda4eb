"""Tools that an agent can run: Python functions, the shell, files, MCP servers, and wrappers around any of them."""

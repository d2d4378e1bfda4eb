"""MCP servers as a source of tools: configuration, connection, login, and approval of tool definitions."""

"""Tools of MCP servers: which there are, how they are reached, what they may say, and what was approved of it."""

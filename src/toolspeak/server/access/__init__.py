"""Access control: authentication, API keys, login sessions, Host/Origin checks, limits."""

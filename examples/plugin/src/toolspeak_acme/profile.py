"""What toolspeak should know about Acme's servers and models, in the format of its own table."""

PROFILES = """
[providers.acme]
hosts = ["*"]
url = "http://127.0.0.1:8999/v1"
keys = ["ACME_API_KEY"]
capability = "none"

[providers.acme-demo]
hosts = ["*"]
capability = "none"
dialect = "acme"

[[families]]
name = "acme-chat"
words = ["acme-chat"]
dialect = "acme"
"""

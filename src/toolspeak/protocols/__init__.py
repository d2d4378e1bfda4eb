"""Codecs for the wire protocols of clients and upstreams.

Codecs perform no I/O and do not import each other. The names of each codec:

- requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and, in some,
  `needs_store` (whether the request needs stored replies) and `path` (the URL path, which contains the model);
- upstream replies: `ReplyDecoder`, `decode_error`;
- client replies: `ReplyEncoder`, `encode_reply`, `encode_error`.

docs/protocols.md lists what each protocol cannot carry.
"""

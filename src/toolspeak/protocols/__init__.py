"""Wire protocols of clients and upstreams: bytes to values and events, and back.

Each codec decodes and encodes requests and replies. All are pure and do no I/O. Codecs do not import each other.
"""

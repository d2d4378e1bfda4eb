"""Codecs for the wire protocols of clients and upstreams.

Each codec decodes and encodes requests and replies. Codecs perform no I/O and do not import each other.
"""

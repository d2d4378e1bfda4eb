"""The protocols that clients and upstreams speak: wire bytes in, values and events out, and back.

Each codec has four halves: decode a request, encode a request, decode a reply, encode a reply. All are pure and
know nothing of sockets. Codecs do not import each other; `framing` is what they share.
"""

"""The proxy server, a plain ASGI application: five client protocols over one engine.

`app` dispatches requests, `proxy.exchange` handles one model request, `proxy.client_protocols` defines the protocols
that clients use, and `proxy.upstream_router` finds the upstream that serves a model.
"""

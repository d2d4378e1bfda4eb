"""The proxy server, a plain ASGI application: five client protocols over one engine.

`app` dispatches requests, `proxy.exchange` answers one model request, `proxy.client_protocols` are the protocols of
clients, `proxy.upstream_router` finds the upstream of a model.
"""

"""The proxy: five faces over one engine, as a plain ASGI application.

`app` holds the routes, `exchange` answers one model request, `faces` are the protocols that clients speak,
`gateway` finds the upstream of a model.
"""

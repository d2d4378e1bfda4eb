"""Where answers come from: the seam `Upstream`, and what stands behind it.

`scripted` plays prepared turns, `function` asks a Python function, `http` asks a service, `httpx2` does so through a
proxy or over HTTP/2, `embedded` is the room of the model that runs here, and `fallback` asks one after the other.
`guard` checks addresses that came with a request. Import from the modules: each pulls in only what it needs itself.
"""

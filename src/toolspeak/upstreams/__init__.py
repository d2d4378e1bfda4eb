"""Upstreams: the services and models that answer requests, which all implement the interface `base.Upstream`.

`http` talks to a service, `embedded` runs a local model, `function` wraps a Python function, `scripted` plays prepared
turns and `failover` tries several upstreams in order. `ssrf_guard` checks addresses that others than the configuration
chose. Import from the modules: each loads only what it needs.
"""

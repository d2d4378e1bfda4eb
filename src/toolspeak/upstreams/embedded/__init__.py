"""The embedded model, which runs on this machine and needs no key or account.

`weights` and `hub` provide model files, `merging` rewrites them for fast engines (`engine_build`), `model_process`
is the process that runs the model, and `upstream` starts that process and talks to it.
"""

"""The model that runs here: its weights and where they come from, its engine, its process, and who asks it.

`hub` and `weights` see to files, `eight_bits` rewrites them for a quick `engine`, `child` is the process of its own in
which the model runs, and `upstream` starts that process and speaks to it.
"""

"""How well a model calls tools through toolspeak: suites of cases, a run over them, and what came of it.

`cases` says what a suite is; `builtin` and `bfcl` are the two there are. `runner` asks, `journal` keeps every finished
case, `statistics` counts, `report` and `chart` show.
"""

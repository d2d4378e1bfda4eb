"""Dialects: the text formats in which models write tool calls.

`formats.toml` contains a table for each dialect, and `formats` a module for each one that needs other code; `registry`
collects both. `marks` finds where calls begin, with the tables in `mark_tables`. `call_block` reads the calls after a
mark, in any format (`json_calls`, `named_calls`, `tag_calls`, `line_calls`). `rendering` contains what several dialects
need to render calls.
"""

"""Dialects: how tool calls look in text. Mostly data.

`openings` contains the tables of marks, `block` reads the calls after a mark in any body grammar (`json_calls`,
`named_calls`, `tag_calls`, `line_calls`), `rendering` and `registry` write calls and results.
"""

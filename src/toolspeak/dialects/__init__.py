"""Dialects: the text formats in which models write tool calls.

`openings` contains the tables of opening marks. `call_block` reads the calls after a mark, in any format (`json_calls`,
`named_calls`, `tag_calls`, `line_calls`). `rendering` and `registry` render calls and results.
"""

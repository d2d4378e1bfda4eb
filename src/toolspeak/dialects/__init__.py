"""How calls look in text: wrapper marks times body grammars, mostly data.

`marks` holds the tables, `block` reads what stands behind a mark with the body grammars (`json_calls`,
`named_calls`, `tag_calls`, `lines`), `render` writes calls and results.
"""

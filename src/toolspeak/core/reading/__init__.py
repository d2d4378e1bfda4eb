"""What the scanner and the dialects share: candidates under construction, values, marks, quotes, and what waits.

Above: `scanner`, the dialects, `reader`. Below: `lenient_json`, `schema`, the values.
"""

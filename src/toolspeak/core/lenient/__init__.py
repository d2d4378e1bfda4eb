"""The parts of the reader of forgiving JSON, which is `lenient_json`: one module for each kind of thing that it reads.

Above: `lenient_json`, the dialects. Below: the values.
"""

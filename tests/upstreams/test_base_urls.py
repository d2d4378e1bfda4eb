"""Base URLs and headers: what is taken, and what is refused without being shown."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.errors import ConfigError
from toolspeak.upstreams.http.address import BaseUrl, header_block, header_lines, parse_base_url, redact, secret_values


@check_each(
    ("url", "expected"),
    [
        ("http://127.0.0.1:9000/v1", ("http://127.0.0.1:9000/v1", False, "127.0.0.1", 9000, "127.0.0.1:9000", "/v1")),
        ("http://localhost", ("http://localhost", False, "localhost", 80, "localhost", "")),
        (
            "https://api.example.com/v1/",
            ("https://api.example.com/v1", True, "api.example.com", 443, "api.example.com", "/v1"),
        ),
        ("HTTPS://Example.com//", ("https://Example.com", True, "example.com", 443, "Example.com", "")),
        ("http://[::1]:8080/a/b", ("http://[::1]:8080/a/b", False, "::1", 8080, "[::1]:8080", "/a/b")),
    ],
)
def test_a_base_url_is_taken_apart(url: str, expected: tuple[str, bool, str, int, str, str]):
    assert parse_base_url(url) == BaseUrl(*expected)


@check_each(
    "url",
    [
        "",
        "api.example.com/v1",
        "ftp://example.com",
        "file:///etc/passwd",
        "http://",
        "http:///v1",
        "http://example.com:port",
        "http://example.com:99999",
        "http://[::1",
        "http://user:hunter22@example.com",
        "http://hunter22@example.com",
        "http://example.com/v1?key=hunter22",
        "http://example.com/v1#hunter22",
        "http://example.com/a b",
        "http://example.com\\@evil.example",
        "http://example.com/\r\nX-Evil: hunter22",
        "http://example.com/\x00",
        "http://exämple.com",
    ],
)
def test_a_base_url_that_means_something_else_is_refused_and_not_shown(url: str):
    with pytest.raises(ConfigError) as caught:
        parse_base_url(url)
    assert "hunter22" not in str(caught.value)


WHERE = parse_base_url("http://127.0.0.1:9000/v1")


def test_headers_of_the_caller_win_over_the_usual_ones():
    lines = header_block(WHERE, header_lines({"User-Agent": "mine", "X-Trace": "a b"})).decode().split("\r\n")
    assert lines == [
        "Host: 127.0.0.1:9000",
        "Content-Type: application/json",
        "Accept-Encoding: identity",
        "User-Agent: mine",
        "Accept: text/event-stream, application/json",
        "X-Trace: a b",
        "",
    ]


@check_each(
    ("name", "value"),
    [
        ("", "hunter22"),
        ("a b", "hunter22"),
        ("a:b", "hunter22"),
        ("X-Evil\r\nX-More", "hunter22"),
        ("X-A", "hunter22\r\nX-Evil: 1"),
        ("X-A", "hunter22\n"),
        ("X-A", " hunter22"),
        ("X-A", "hunter22\x00"),
        ("X-A", "hunter22 …"),
        ("Host", "hunter22"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
    ],
)
def test_a_header_that_could_change_the_request_is_refused_and_its_value_not_shown(name: str, value: str):
    with pytest.raises(ConfigError) as caught:
        header_lines({name: value})
    assert "hunter22" not in str(caught.value)


def test_secrets_are_what_is_long_enough_to_be_one_the_longest_first():
    assert secret_values(["", "short", "sk-12345678", "sk-12345678-long"]) == ("sk-12345678-long", "sk-12345678")


SECRET = "sk/abc-0123456789"


@check_each(
    ("text", "shown"),
    [
        ("nothing", "nothing"),
        (f"key {SECRET}.", "key ***."),
        (f"{SECRET}{SECRET}", "******"),
        (r'{"e": "sk\/abc-0123456789 no\n"}', r'{"e": "*** no\n"}'),
        (r"\u0073k\u002Fabc-0123456789 no", "*** no"),
        (r'{"e": "{\"k\": \"sk\\/abc-0123456789\"}"}', r'{"e": "{\"k\": \"***\"}"}'),
        ("cut sk/abc", "cut ***"),
        ("cut sk/", "cut sk/"),
        (r"cut sk\/abc", "cut ***"),
        ("cut sk\\/abc\\", "cut ***"),
        (r"cut sk\/abc\u00", "cut ***"),
        (r"a\\b\u00e4\t", r"a\\b\u00e4\t"),
    ],
)
def test_a_secret_is_found_behind_escapes_and_where_it_was_cut(text: str, shown: str):
    assert redact(text, [SECRET]) == shown


def test_a_secret_inside_another_is_hidden_with_it():
    assert redact("x sk-12345678-long y", ["sk-12345678-long", "sk-12345678", "8-long y"]) == "x ***"


def test_without_secrets_nothing_is_looked_for():
    assert redact(r"a\/b", []) == r"a\/b"

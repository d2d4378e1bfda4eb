"""URLs that came with a request: what they may lead to, however they are written and whatever their names mean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.errors import UsageError
from toolspeak.upstreams.ssrf_guard import PinnedUrl, Resolver, check_address, is_public

PUBLIC = "93.184.216.34"


def names(table: dict[str, list[str]]) -> Resolver:
    async def resolve(host: str, port: int) -> Iterable[str]:
        if host not in table:
            raise socket.gaierror(-2, "Name or service not known")
        return table[host]

    return resolve


#: Names that mean something else than they look like.
KNOWN = {
    "images.example": [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946"],
    "rebound.example": ["127.0.0.1"],
    "half.example": [PUBLIC, "10.0.0.7"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "empty.example": [],
    "box.internal": ["10.1.2.3"],
    "model": ["192.168.1.9"],
}


def check(url: str, allow: Iterable[str] = ()) -> PinnedUrl:
    return asyncio.run(check_address(url, allow=allow, resolver=names(KNOWN)))


@pytest.mark.requirement("R-T3")
@check_each(
    ("url", "expected"),
    [
        ("https://images.example/a.png?x=1", (True, "images.example", 443, tuple(KNOWN["images.example"]))),
        ("http://Images.Example.:8080/", (False, "images.example", 8080, tuple(KNOWN["images.example"]))),
        (f"http://{PUBLIC}/", (False, PUBLIC, 80, (PUBLIC,))),
        ("https://[2606:4700::1111]/", (True, "2606:4700::1111", 443, ("2606:4700::1111",))),
    ],
)
def test_a_public_place_is_fine_and_its_addresses_are_pinned(url: str, expected: tuple[object, ...]):
    found = check(url)
    assert (found.secure, found.host, found.port, found.addresses) == expected
    assert found.url == url


@pytest.mark.requirement("R-T3")
@check_each(
    "url",
    [
        # inside
        "http://127.0.0.1/",
        "http://127.255.255.254/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "http://172.31.255.255/",
        "http://192.168.0.1:8080/",
        "http://100.64.0.1/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://localhost/",
        "http://localhost./",
        "http://a.localhost/",
        "http://printer.local/",
        "http://box.internal/",
        "http://model/",
        # metadata services
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://192.0.0.192/",
        "http://[fd00:ec2::254]/",
        # IPv6, and IPv4 inside it
        "http://[::1]/",
        "http://[::]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fc00::1]/",
        "http://[ff02::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
        # numbers that some readers take for addresses
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://1.2.3.4.5/",
        "http://127.0.0.1./",
        "http://example.0x7f/",
        # names and passwords, backslashes and other tricks
        "http://user@images.example/",
        "http://images.example@127.0.0.1/",
        "http://127.0.0.1:80@images.example/",
        "http://images.example\\@127.0.0.1/",
        "http:\\\\127.0.0.1/",
        "http://images.example\t.evil/",
        "http://images.example /",
        "http://images.example\r\nHost: x/",
        "http://127。0。0。1/",
        "http://ⓛocalhost/",
        "http://%31%32%37.0.0.1/",
        "http://images.example%2f@127.0.0.1/",
        "http://-images.example/",
        "http://images..example/",
        f"http://{'a.' * 130}example/",
        "http:///etc/passwd",
        "http://",
        "http://[::1",
        "http://images.example:99999/",
        "http://images.example:port/",
        "file:///etc/passwd",
        "gopher://images.example/",
        "ftp://images.example/",
        "//images.example/",
        "",
        # names that lead inside
        "http://rebound.example/",
        "http://half.example/",
        "http://mapped.example/",
        "http://empty.example/",
        "http://nobody.example/",
    ],
)
def test_what_leads_inside_or_can_be_read_in_two_ways_is_refused(url: str):
    with pytest.raises(UsageError) as found:
        check(url)
    # What was written is not repeated: it may be meant for a log.
    assert not url or url not in str(found.value)


@pytest.mark.requirement("R-T3")
def test_a_name_that_changes_its_mind_is_asked_once():
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    asked: list[tuple[str, int]] = []

    async def moving(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return next(answers)

    found = asyncio.run(check_address("https://moving.example/", resolver=moving))
    assert (found.addresses, asked) == ((PUBLIC,), [("moving.example", 443)])


@pytest.mark.requirement("R-T3")
@check_each(
    ("url", "allow"),
    [
        ("http://127.0.0.1/", ["127.0.0.0/8"]),
        ("http://127.0.0.1/", ["127.0.0.1"]),
        ("http://[::ffff:10.1.2.3]/", ["10.0.0.0/8"]),
        ("http://box.internal/", ["Box.Internal"]),
        ("http://model/", ["other", "model"]),
        ("http://rebound.example/", ["127.0.0.1/32"]),
    ],
)
def test_what_is_allowed_by_name_or_network_passes(url: str, allow: list[str]):
    assert check(url, allow).addresses


@pytest.mark.requirement("R-T3")
@check_each(
    ("url", "allow"),
    [
        ("http://box.internal/", ["10.0.0.0/8"]),
        ("http://half.example/", ["192.168.0.0/16"]),
        ("http://a.box.internal/", ["box.internal"]),
    ],
)
def test_allowing_one_thing_allows_nothing_else(url: str, allow: list[str]):
    with pytest.raises(UsageError):
        check(url, allow)


@check_each("found", ["", "images.example", "93.184.216.34:80", "::g", "127.1", None, 5])
@check_each("allow", [[], ["images.example"]])
def test_a_lookup_that_gives_no_address_is_told(found: str, allow: list[str]):
    resolver = names({"images.example": [PUBLIC, found]})
    with pytest.raises(UsageError, match="invalid address"):
        asyncio.run(check_address("http://images.example/", allow=allow, resolver=resolver))


def test_the_system_is_asked_where_nobody_else_is(monkeypatch: pytest.MonkeyPatch):
    def known(host: str, port: int, *rest: object, **more: object) -> object:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, port))] * 2

    monkeypatch.setattr(socket, "getaddrinfo", known)
    assert asyncio.run(check_address("http://images.example/")).addresses == (PUBLIC,)


@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_inside_another_as_by_itself(address: object):
    plain = ip_address(str(address))
    mapped, translated = ip_address(f"::ffff:{plain}"), ip_address(f"64:ff9b::{plain}")
    assert is_public(mapped) == is_public(translated) == is_public(plain)


@given(st.text(max_size=40))
def test_any_text_is_refused_or_leads_to_a_public_address(text: str):
    try:
        found = check(f"http://{text}")
    except UsageError:
        return
    assert all(is_public(ip_address(address)) for address in found.addresses)


@check_each(
    "url",
    ["http://[::ffff:0:127.0.0.1]/", "http://[::ffff:0:10.0.0.1]/", "http://[5f00::1]/", "https://example.com:0/"],
)
def test_odd_ways_to_name_what_is_inside_are_refused(url: str):
    async def found(host: str, port: int) -> list[str]:
        return ["93.184.215.14"]

    with pytest.raises(UsageError):
        asyncio.run(check_address(url, resolver=found))

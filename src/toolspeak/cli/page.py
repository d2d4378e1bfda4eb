"""`toolspeak page`: print one-time links to the web pages of servers running on this machine."""

from ..server.access.login_sessions import CODE_SECONDS, link
from ._io import CliError, echo
from ._recorded_requests import new_codes
from .config import load_config, usage_errors


def command() -> None:
    with usage_errors():
        codes = new_codes(load_config())
    if not codes:
        hint = "start `toolspeak serve`, or sign in on its page with an admin key (`toolspeak keys new NAME --admin`)"
        raise CliError("no running server found on this machine", hint=hint)
    for server, code in codes:
        echo(link(server.url, code))
    echo(f"note: each link works once and expires in {CODE_SECONDS / 60:.0f} minutes", err=True)

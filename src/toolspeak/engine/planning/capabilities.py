"""What is known of a model: the profile, the table it comes from, the overrides, and which rule decided.

The table is data (`profiles.toml`); overrides come from the API and from the configuration. Nothing here asks
a model and nothing fails on an unknown name: what is not known has no native calling and gets the text contract.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from ...core.types import JSONObject, JSONValue, is_array, is_object, require
from ...errors import ConfigError

Capability: TypeAlias = Literal["none", "openai", "advanced"]
Constraint: TypeAlias = Literal["", "openai_strict", "json_schema", "gbnf", "lark"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]

#: Answers kept at hand. A process talks to a few models; more than this means that names come from outside.
_MOST_REMEMBERED = 1024


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a model behind a host. Each field has a default that is safe when nothing is known."""

    #: `none`: calls are asked for as text. `openai`: takes `tools` in OpenAI's shape. `advanced`: takes tools in a
    #: shape of its own. Default `none`: a host that ignores tools would silently lose every call.
    capability: Capability = "none"
    #: A native answer may hold calls as text, which are then found there. Default true, since many servers fail to
    #: read what their model writes; false where it is known not to happen, so that quoted markup stays text.
    leaks: bool = True
    #: The dialect that the model is asked to speak. Default: the `json action` fence, which needs no training; a
    #: family trained on another plain-text format follows that one better.
    dialect: str = "action"
    #: How calls are asked for as text. Default: as the mode has it; another where a model is known to do better so.
    plan: Literal["", "inline", "decision", "envelope"] = ""
    #: Whether there is a system role. Default true; false where templates refuse one or drop it: the contract then
    #: goes into the first user message.
    system_role: bool = True
    #: Kinds of media that pass. Default all; a text-only model answers pictures with an error, so what it cannot
    #: take becomes a placeholder.
    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    #: What the upstream can enforce while it generates. Default nothing; without it no constrained plan.
    constraint: Constraint = ""
    #: Whether one turn may hold several calls. Default true; false for models that garble the second one.
    parallel: bool = True
    #: Whether a choice of tools that demands a call is enforced where tools are native. Default true; where it is not,
    #: such a request is emulated.
    required: bool = True
    #: Whether answers come in pieces. Default true; false where a request for a stream is refused, or gets one piece.
    streams: bool = True
    #: How many stop sequences a request may carry. Default 4, the least that the usual hosts take; 0 where any is
    #: refused, as reasoning models do.
    max_stop: Annotated[int, msgspec.Meta(ge=0)] = 4
    #: Whether call marks carry a nonce. Default `auto`: when the dialect can; `fixed` for models too small to copy
    #: a word that they have never seen.
    marks: Literal["nonce", "fixed", "auto"] = "auto"
    #: How schemas of native tools are transformed. Default: as the protocol does it; a name where a host wants less
    #: than its protocol allows.
    transform: str = ""
    #: Whether the same call twice in one answer is meant. Default true; false for models that stutter: what an answer
    #: has called already, with the same arguments, is dropped with a note.
    repeats: bool = True
    #: What share was right where the model was measured so, in percent by test. Default: it was not. Nothing is decided
    #: by it; it is told to who asks what will be done.
    measured: dict[str, Annotated[float, msgspec.Meta(ge=0, le=100)]] = {}


class Found(msgspec.Struct, frozen=True):
    """A profile, and how it was found."""

    profile: Profile
    #: The rule that decided the capability, for machines: `override.model`, `table.provider`, `foreign_host` ...
    rule: str
    #: The same for people, in one sentence.
    why: str


class Provider(msgspec.Struct, frozen=True):
    """A vendor, or a server that everybody may run, and what it takes to reach it."""

    name: str
    #: What differs from the default profile.
    fields: JSONObject = {}
    #: Its own hosts: a name (https, usual port), a name with a port, `*.name` for all below it, or `*` for any.
    hosts: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    #: Where it is when nobody says otherwise.
    url: str = ""
    #: The protocol spoken there.
    protocol: str = "openai"
    #: Environment variables, first one wins, that hold a key and a base URL for it.
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def owns(self, base_url: str) -> bool:
        """Whether its name stands for what answers at this URL."""
        if not base_url or "*" in self.hosts:
            return True
        scheme, host = _origin(base_url)
        own = {*self.hosts, _origin(self.url)[1]} - {""}
        if ":" in host:
            return host in own
        return scheme == "https" and (host in own or any(f"*.{rest}" in own for rest in _parents(host)))


class Family(msgspec.Struct, frozen=True):
    """Models that write alike, told by a word in their names."""

    name: str
    words: tuple[str, ...]
    fields: JSONObject = {}


class Table(msgspec.Struct, frozen=True):
    """Providers, models and families as read from a file."""

    providers: dict[str, Provider] = {}
    models: dict[str, JSONObject] = {}
    families: tuple[Family, ...] = ()

    def over(self, other: Table) -> Table:
        """Both tables in one; where they meet, this one counts."""
        return Table(
            {**other.providers, **self.providers}, {**other.models, **self.models}, self.families + other.families
        )


class Overrides(msgspec.Struct, frozen=True):
    """What one source says against the table: fields of a profile by provider, base URL and model."""

    providers: dict[str, JSONObject] = {}
    upstreams: dict[str, JSONObject] = {}
    models: dict[str, JSONObject] = {}


class _Layer(NamedTuple):
    """Fields from one source; a later layer wins."""

    rule: str
    fields: JSONObject
    why: str


# ---- reading and checking


def split_model(name: str) -> tuple[str, str]:
    """The provider and the model of `provider:model`; the provider is empty when there is none.

    >>> split_model("deepinfra:deepseek-ai/DeepSeek-V3:free")
    ('deepinfra', 'deepseek-ai/DeepSeek-V3:free')
    >>> split_model("llama3.1:latest")
    ('', 'llama3.1:latest')
    """
    require(name, str, "a model", "a text like `provider:model`")
    head, colon, rest = name.partition(":")
    # A name with a slash or a dot before the colon is a model with a tag.
    if not colon or "/" in head or "." in head:
        return "", name
    return head.strip().lower(), rest


def checked(
    kind: type[msgspec.Struct], fields: Mapping[str, JSONValue], where: str, *, dialects: bool = True
) -> JSONObject:
    """The fields as values of the types that `kind` declares; names of dialects are looked up if `dialects`.

    Raises:
        ConfigError: names the place, the field and what it may be.
    """
    hints = hints_of(kind)
    values: JSONObject = {}
    for name, value in fields.items():
        if name not in hints:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=_one_of(hints))
        try:
            values[name] = msgspec.convert(value, hints[name])
        except msgspec.ValidationError:
            hint = f"use {allowed(hints[name])}"
            raise ConfigError(f"`{name}` in {where} cannot be `{value!s:.80}`", hint=hint) from None
    # A profile must name a dialect; elsewhere it may be left to the profile.
    if dialects and "dialect" in values and (kind is Profile or values["dialect"] not in ("", "auto")):
        _check_dialect(values["dialect"], where)
    return values


def _check_dialect(name: str, where: str) -> None:
    # Imported here: with the table come all readers and writers, which a turn without tools does not need.
    from ...dialects.registry import DIALECTS

    if name not in DIALECTS:
        raise ConfigError(f"`dialect` in {where} cannot be `{name}`", hint=_one_of(DIALECTS))


@cache
def hints_of(kind: type[msgspec.Struct]) -> dict[str, JSONValue]:
    """The types of a struct's fields."""
    return get_type_hints(kind, include_extras=True)


def bare(hint: JSONValue) -> JSONValue:
    """The type without its bounds."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def allowed(hint: JSONValue) -> str:
    """What a value of that type may be, in words.

    >>> allowed(Annotated[int, msgspec.Meta(ge=0, le=10)])
    'a whole number from 0 to 10'
    """
    bounds = _bounds(hint)
    hint = bare(hint)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(choice or '""' for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list; each item: {allowed(get_args(hint)[0])}"
    return {bool: "true or false", int: f"a whole number{bounds}", str: "a text"}.get(hint, "a table")


def _bounds(hint: JSONValue) -> str:
    """Between which numbers, in words; nothing where any will do."""
    meta = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, msgspec.Meta)), None)
    if meta is None or meta.ge is None:
        return ""
    return f" of at least {meta.ge}" if meta.le is None else f" from {meta.ge} to {meta.le}"


def _one_of(names: Iterable[str]) -> str:
    return f"use one of {', '.join(names)}"


class _ProviderRow(msgspec.Struct, frozen=True):
    hosts: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    url: str = ""
    protocol: str = "openai"
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


class _FamilyRow(msgspec.Struct, frozen=True):
    name: str
    words: tuple[str, ...]


def read_table(source: str | Mapping[str, JSONValue], where: str, *, dialects: bool = True) -> Table:
    """A table from TOML text, or from the same as plain values; names of dialects are looked up if `dialects`.

    Raises:
        ConfigError: names the place and what is wrong there.
    """
    if isinstance(source, str):
        try:
            source = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{where} is not TOML: {error}") from None
    if unknown := set(source) - {"providers", "models", "families"}:
        raise ConfigError(f"unknown table `{min(unknown)}` in {where}", hint="use providers, models or families")
    providers = {
        name.lower(): _provider(name, row, where, dialects) for name, row in _tables(source, "providers", where)
    }
    models = {
        name.lower(): checked(Profile, row, f"{where}, models.`{name}`", dialects=dialects)
        for name, row in _tables(source, "models", where)
    }
    families = source.get("families", [])
    if not is_array(families):
        raise ConfigError(f"`families` in {where} must be a list of tables")
    return Table(providers, models, tuple(_family(row, where, dialects) for row in families))


def _tables(source: Mapping[str, JSONValue], key: str, where: str) -> Iterator[tuple[str, JSONObject]]:
    tables = source.get(key, {})
    for name, row in tables.items() if is_object(tables) else [("", None)]:
        if not is_object(row):
            raise ConfigError(f"`{key}` in {where} must be a table of tables")
        yield name, row


def _provider(name: str, row: JSONObject, where: str, dialects: bool) -> Provider:
    where = f"{where}, providers.`{name}`"
    own, rest = _parted(row, _ProviderRow)
    fields = checked(Profile, rest, where, dialects=dialects)
    return Provider(name.lower(), fields, **checked(_ProviderRow, own, where))


def _family(row: JSONValue, where: str, dialects: bool) -> Family:
    where = f"{where}, families"
    if not is_object(row) or not {"name", "words"} <= row.keys():
        raise ConfigError(f"{where} must be tables with a `name` and `words`")
    own, rest = _parted(row, _FamilyRow)
    if "capability" in rest:
        raise ConfigError(f"`capability` in {where} says nothing", hint="hosts take tools, families only write them")
    return Family(fields=checked(Profile, rest, where, dialects=dialects), **checked(_FamilyRow, own, where))


def _parted(row: JSONObject, kind: type[msgspec.Struct]) -> tuple[JSONObject, JSONObject]:
    """The fields that are `kind`'s, and the others."""
    names = kind.__struct_fields__
    return {k: v for k, v in row.items() if k in names}, {k: v for k, v in row.items() if k not in names}


@cache
def builtin_table() -> Table:
    """The table that comes with toolspeak."""
    # Imported here: it costs more than all of this module.
    from importlib.resources import files

    text = files("toolspeak.engine.planning").joinpath("profiles.toml").read_text(encoding="utf-8")
    return read_table(text, "profiles.toml", dialects=False)  # a test looks them up


# ---- names and hosts

_URL = re.compile(r"(https?)://(?:[^/?#@\\]*@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?=[/?#]|\Z)", re.ASCII)
_USUAL_PORTS = {"https": "443", "http": "80"}


def _origin(url: str) -> tuple[str, str]:
    """Scheme and host, with its port if it is unusual; empty where the URL is not plain enough to be sure."""
    match = _URL.match(url.strip().lower())
    if match is None:
        return "", ""
    scheme, host, port = match.groups()
    usual = port in (None, _USUAL_PORTS[scheme])
    return scheme, host.rstrip(".") if usual else f"{host}:{port}"


def _parents(host: str) -> Iterator[str]:
    """The domains that a host lies in."""
    _, dot, rest = host.partition(".")
    while dot:
        yield rest
        _, dot, rest = rest.partition(".")


def _place(base_url: str) -> str:
    """A base URL in the spelling that it is remembered by."""
    require(base_url, str, "a base URL", "a text")
    return base_url.strip().rstrip("/").lower()


def matching(patterns: Iterable[str], name: str) -> str | None:
    """The pattern that says most about a name: itself, else the longest that fits; `*` stands for any text."""
    best: str | None = None
    for pattern in patterns:
        if pattern == name:
            return pattern
        if (best is None or len(pattern) > len(best)) and _fits(pattern, name):
            best = pattern
    return best


def _fits(pattern: str, name: str) -> bool:
    head, *parts = pattern.split("*")
    if not parts or not name.startswith(head):
        return False
    at = len(head)
    *middle, tail = parts
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - len(tail) >= at and name.endswith(tail)


def _has_word(name: str, word: str) -> bool:
    """Whether the name holds the word at the start of one of its words."""
    at = name.find(word)
    while at > 0 and name[at - 1].isalpha():
        at = name.find(word, at + 1)
    return at >= 0


# ---- looking up


class Capabilities:
    """The table, what was learned, and what users say against it.

    A user's word beats what was learned, which beats the table. Between users' words the source counts first
    (API over environment over files), then the narrower scope (model over upstream over provider).
    """

    def __init__(self, table: Table | None = None) -> None:
        self._table = table if table is not None else builtin_table()
        self._aliases = {alias: row.name for row in self._table.providers.values() for alias in row.aliases}
        #: What was learned of a model, by the rule that it is told by.
        self._learned: dict[tuple[str, str, str], dict[str, _Layer]] = {}
        self._configured: tuple[tuple[str, Overrides], ...] = ()
        self._api = Overrides()
        self._remembered: dict[tuple[str, str, str], Found] = {}

    def canonical(self, provider: str) -> str:
        """A provider's name in the spelling of the table."""
        require(provider, str, "a provider", "a text")
        name = provider.strip().lower()
        return self._aliases.get(name, name)

    def model_key(self, model: str) -> str:
        """A `provider:model` in the spelling that it is looked up by; without a provider it stands for any."""
        require(model, str, "a model", "a text like `provider:model`")
        provider, rest = split_model(model.strip())
        return f"{self.canonical(provider) or '*'}:{rest}".lower()

    def provider(self, name: str) -> Provider | None:
        """What is known of a provider; None when it is not in the table."""
        return self._table.providers.get(self.canonical(name))

    def find(self, provider: str, model: str, base_url: str = "") -> Found:
        """What is known of a model. Never fails: what is unknown has no native calling."""
        key = (provider, model, base_url)
        found = self._remembered.get(key)
        if found is None:
            found = self._look_up(self.canonical(provider), model, base_url)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def override_provider(self, provider: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
        """Say what the models of a provider can do, at whatever host."""
        fields = _fields(what, f"the override of `{provider}`")
        self._change(providers={**self._api.providers, self.canonical(provider): fields})

    def override_upstream(self, base_url: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
        """Say what the models behind a base URL can do."""
        fields = _fields(what, "the override of an upstream")
        self._change(upstreams={**self._api.upstreams, _place(base_url): fields})

    def override_model(self, model: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
        """Say what one `provider:model` can do; without a provider, the model of that name anywhere."""
        fields = _fields(what, f"the override of `{model}`")
        self._change(models={**self._api.models, self.model_key(model): fields})

    def clear_overrides(self) -> None:
        """Take back every override made by the methods above."""
        self._change(providers={}, upstreams={}, models={})

    def configure(self, *sources: tuple[str, Overrides]) -> None:
        """Take these overrides from the configuration, the strongest source last, in place of earlier ones."""
        self._configured = tuple(
            (
                source,
                Overrides(
                    _keyed(said.providers, self.canonical),
                    _keyed(said.upstreams, _place),
                    _keyed(said.models, self.model_key),
                ),
            )
            for source, said in sources
        )
        self._remembered.clear()

    def learn(
        self,
        provider: str,
        model: str,
        base_url: str,
        what: Capability | Mapping[str, JSONValue],
        why: str,
        rule: Literal["probe", "learned"] = "learned",
    ) -> None:
        """Take what the model's own behaviour has shown, until `forget`: in a probe, or, which counts more, in use."""
        layer = _Layer(rule, _fields(what, f"what was learned of `{model}`"), why)
        key = (self.canonical(provider), model, _place(base_url))
        if key not in self._learned and len(self._learned) >= _MOST_REMEMBERED:
            del self._learned[next(iter(self._learned))]  # names come from outside: the oldest goes
        self._learned.setdefault(key, {})[rule] = layer
        self._remembered.clear()

    def forget(self, provider: str, model: str, base_url: str) -> None:
        """Drop what was learned of a model."""
        self._learned.pop((self.canonical(provider), model, _place(base_url)), None)
        self._remembered.clear()

    def extend(self, table: Table) -> None:
        """Put the entries of another table before the ones there are."""
        self._table = table.over(self._table)
        self._aliases |= {alias: row.name for row in table.providers.values() for alias in row.aliases}
        self._remembered.clear()

    def _change(self, **scopes: dict[str, JSONObject]) -> None:
        self._api = msgspec.structs.replace(self._api, **scopes)
        self._remembered.clear()

    def _look_up(self, provider: str, model: str, base_url: str) -> Found:
        values: JSONObject = {}
        decided = _Layer("unknown", {}, "")
        for layer in self._layers(provider, model, base_url):
            values |= layer.fields
            if layer.rule in ("unknown", "foreign_host") or "capability" in layer.fields:
                decided = layer
        return Found(Profile(**values), decided.rule, decided.why)

    def _layers(self, provider: str, model: str, base_url: str) -> Iterator[_Layer]:
        """Everything that is said about a model, the weakest first."""
        row = self._table.providers.get(provider)
        name = f"{provider}:{model}".lower()
        yield from self._family(model.lower() if row else name)
        yield from self._from_table(row, provider, name, base_url)
        learned = self._learned.get((provider, model, _place(base_url)), {})
        yield from (learned[rule] for rule in ("probe", "learned") if rule in learned)
        for source, overrides in (*self._configured, ("override", self._api)):
            yield from _said(source, overrides, provider, name, base_url)

    def _family(self, name: str) -> Iterator[_Layer]:
        for family in self._table.families:
            if any(_has_word(name, word) for word in family.words):
                yield _Layer("family", family.fields, "")
                return

    def _from_table(self, row: Provider | None, provider: str, name: str, base_url: str) -> Iterator[_Layer]:
        if row is None:
            named = f"provider `{provider}` is not in the table" if provider else "no provider is named"
            yield _Layer("unknown", {}, f"{named}, so native calling is not assumed")
            return
        if not row.owns(base_url):
            why = f"`{row.name}` stands for its own host, and this base URL is another one"
            yield _Layer("foreign_host", {}, why)
            return
        yield _Layer("table.provider", row.fields, f"the table says so for provider `{row.name}`")
        if pattern := matching(self._table.models, name):
            yield _Layer("table.model", self._table.models[pattern], f"the table says so for model `{pattern}`")


def _said(source: str, overrides: Overrides, provider: str, name: str, base_url: str) -> Iterator[_Layer]:
    """What one source says, the widest scope first."""
    by = {"override": "an override", "env": "the environment"}.get(source, "the configuration")
    if provider in overrides.providers:
        yield _Layer(f"{source}.provider", overrides.providers[provider], f"{by} says so for provider `{provider}`")
    if base_url and (place := _place(base_url)) in overrides.upstreams:
        yield _Layer(f"{source}.upstream", overrides.upstreams[place], f"{by} says so for this base URL")
    if pattern := matching(overrides.models, name):
        yield _Layer(f"{source}.model", overrides.models[pattern], f"{by} says so for model `{pattern}`")


def _fields(what: Capability | Profile | Mapping[str, JSONValue], where: str) -> JSONObject:
    if isinstance(what, str):
        what = {"capability": what}
    elif isinstance(what, Profile):
        what = msgspec.structs.asdict(what)
    require(what, Mapping, where, "a capability, a profile or some of its fields")
    return checked(Profile, what, where)


def _keyed(tables: dict[str, JSONObject], key: Callable[[str], str]) -> dict[str, JSONObject]:
    return {key(name): fields for name, fields in tables.items()}


@cache
def capabilities() -> Capabilities:
    """The table and the overrides that this process shares."""
    return Capabilities()


def override_provider(provider: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
    """Say what the models of a provider can do, for this process: a capability, a profile, or some of its fields."""
    capabilities().override_provider(provider, what)


def override_model(model: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
    """Say what one `provider:model` can do, for this process: a capability, a profile, or some of its fields."""
    capabilities().override_model(model, what)

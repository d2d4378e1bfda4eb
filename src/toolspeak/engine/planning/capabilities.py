"""Look up a model's profile: its capabilities, and which rule determined them.

Profiles come from a built-in table (`profiles.toml`), from probes, and from overrides in the API and the configuration.
Lookups send no requests and never fail: an unknown model is assumed to have no native tool calling.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from ...core.text import suggestion
from ...core.types import JSONObject, JSONValue, is_array, is_object, require
from ...errors import ConfigError
from .. import read_toml

Capability: TypeAlias = Literal["none", "openai", "advanced"]
Constraint: TypeAlias = Literal["", "openai_strict", "json_schema", "gbnf", "lark"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]

#: Protocols with a tool format of their own.
_OWN_TOOL_FORMAT = frozenset({"anthropic", "gemini"})
#: Maximum number of cached lookups. A process uses few models, but requests may contain arbitrary names.
_MAX_CACHED = 1024
_DEFAULT_MODELS = {"embedded": "smollm2-135m"}  # the models of providers that need no model name


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capabilities of a model on a host. The defaults are safe for unknown models."""

    #: Native tool calling: `none` (calls are written as text), `openai` (`tools` in OpenAI's format) or `advanced`
    #: (tools in another format). Default `none`, because a host that ignores tools would silently lose every call.
    capability: Capability = "none"
    #: Whether to parse calls in the text of native answers. Default true, because many servers fail to parse their
    #: model's output. If false, call markup that an answer quotes stays text.
    leaks: bool = True
    #: The dialect for calls in text. The default, a `json action` code fence, works without training; some model
    #: families are trained on another format.
    dialect: str = "action"
    #: The emulation plan. If empty, the mode determines it.
    plan: Literal["", "inline", "decision", "envelope"] = ""
    #: Whether the model supports a system role. If its chat template rejects or drops system messages, the tool prompt
    #: goes into the first user message.
    system_role: bool = True
    #: Whether user and assistant messages must alternate in native requests as well. Requests that carry the tool
    #: prompt always alternate.
    alternates: bool = False
    #: Supported media. Others are replaced by placeholders, because the upstream would reject them.
    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    #: Supported flavour of constrained decoding, which the envelope plan needs. Empty if there is none.
    constraint: Constraint = ""
    #: Whether the upstream lets the model continue the beginning of an envelope (see `AnswerFrame`).
    frames: bool = False
    #: Whether the upstream accepts a response format. If not, toolspeak asks for it in the prompt only.
    response_format: bool = True
    #: Whether one turn may contain several calls. False for models that garble the second one.
    parallel: bool = True
    #: Whether the upstream enforces a `tool_choice` that demands a call. If not, such requests are emulated.
    required: bool = True
    #: Whether the upstream streams answers. False if it rejects `stream` or sends the answer in one chunk.
    streams: bool = True
    #: Maximum number of stop sequences. All common hosts accept 4; reasoning models accept none, so use 0.
    max_stop: Annotated[int, msgspec.Meta(ge=0)] = 4
    #: Size of the context window in tokens; 0 if it is not known.
    context_window: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Whether calls carry a nonce. `auto` means that they do if the dialect supports it. `fixed` means no nonce, for
    #: models that are too small to copy an unknown word. `optional` means a nonce only for agents, which run the calls
    #: themselves, for models that leave it out or change it.
    marks: Literal["nonce", "fixed", "optional", "auto"] = "auto"
    #: Name of a schema transform for native tools, for hosts that do not support all of JSON Schema.
    transform: str = ""
    #: Whether identical calls in one answer are intentional. If not, duplicates are dropped with a note.
    repeats: bool = True
    #: Measured accuracy in percent, by benchmark. For display only.
    measured: dict[str, Annotated[float, msgspec.Meta(ge=0, le=100)]] = {}


class ProfileMatch(msgspec.Struct, frozen=True):
    """The result of a profile lookup."""

    profile: Profile
    #: The rule that determined the capability, such as `override.model`, `table.provider` or `foreign_host`.
    rule: str
    #: The reason, in words.
    why: str


class _ProviderRow(msgspec.Struct, frozen=True):
    """The fields of a provider in a table, in addition to profile fields."""

    #: Hosts of the provider: a name (https, default port), a name with a port, `*.name` for subdomains, `*` for any.
    hosts: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    #: Default base URL.
    url: str = ""
    protocol: str = "openai"
    #: Environment variables with the API key, and with the base URL. The first one that is set wins.
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


class Provider(_ProviderRow, frozen=True, kw_only=True):
    """A model vendor or server software, and how to connect to it."""

    name: str
    #: Differences from the default profile.
    fields: JSONObject = {}

    def owns(self, base_url: str) -> bool:
        """Whether the URL is on one of the provider's hosts."""
        if not base_url or "*" in self.hosts:
            return True
        scheme, host = _origin(base_url)
        own = {*self.hosts, _origin(self.url)[1]} - {""}
        if ":" in host:
            return host in own
        return scheme == "https" and (host in own or any(f"*.{rest}" in own for rest in _parents(host)))


class _FamilyRow(msgspec.Struct, frozen=True):
    name: str
    words: tuple[str, ...]


class Family(_FamilyRow, frozen=True):
    """Models with the same output format, identified by words in their names."""

    fields: JSONObject = {}


class Table(msgspec.Struct, frozen=True):
    """Providers, models and families from a file."""

    providers: dict[str, Provider] = {}
    models: dict[str, JSONObject] = {}
    families: tuple[Family, ...] = ()

    def over(self, other: "Table") -> "Table":
        """Merge two tables; this one takes precedence."""
        return Table(
            {**other.providers, **self.providers}, {**other.models, **self.models}, self.families + other.families
        )


class Overrides(msgspec.Struct, frozen=True):
    """Overrides from one source: profile fields by provider, base URL and model."""

    providers: dict[str, JSONObject] = {}
    upstreams: dict[str, JSONObject] = {}
    models: dict[str, JSONObject] = {}


class Learned(NamedTuple):
    """Profile fields learned from use, and the reason in words."""

    fields: JSONObject
    why: str


class _ProfileLayer(NamedTuple):
    """Profile fields from one source. Later layers take precedence."""

    rule: str
    fields: JSONObject
    why: str


def native_capability(protocol: str) -> Capability:
    """Return the capability of a model that calls tools natively in this protocol."""
    return "advanced" if protocol in _OWN_TOOL_FORMAT else "openai"


# ---- parsing and validation


def split_model(name: str) -> tuple[str, str]:
    """Split `provider:model`. The provider is empty if the name has none.

    >>> split_model("deepinfra:deepseek-ai/DeepSeek-V3:free")
    ('deepinfra', 'deepseek-ai/DeepSeek-V3:free')
    >>> split_model("llama3.1:latest")
    ('', 'llama3.1:latest')
    """
    require(name, str, "a model", "a string like `provider:model`")
    head, colon, rest = name.partition(":")
    # If a slash or a dot precedes the colon, the name is a model with a tag.
    if not colon or "/" in head or "." in head:
        return "", name
    return head.strip().lower(), rest


def check_fields(
    kind: type[msgspec.Struct], fields: Mapping[str, JSONValue], where: str, *, dialects: bool = True
) -> JSONObject:
    """Validate fields and convert them to the types of `kind`. `dialects` also checks that the dialect exists.

    Raises:
        ConfigError: a field is unknown or invalid.
    """
    hints = field_types(kind)
    values: JSONObject = {}
    for name, value in fields.items():
        if name not in hints:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=suggestion(name, hints))
        try:
            values[name] = msgspec.convert(value, hints[name])
        except msgspec.ValidationError:
            hint = f"use {describe_type(hints[name])}"
            choices = without_bounds(hints[name])
            if get_origin(choices) is Literal:
                hint = suggestion(str(value), get_args(choices), hint)
            raise ConfigError(f"`{name}` in {where} cannot be `{value!s:.80}`", hint=hint) from None
    # In settings, an empty dialect or `auto` means the dialect of the profile.
    if dialects and "dialect" in values and (kind is Profile or values["dialect"] not in ("", "auto")):
        _check_dialect(values["dialect"], where)
    return values


def _check_dialect(name: str, where: str) -> None:
    # Imported here because the registry loads all dialects, and a turn without tools needs none.
    from ...dialects.registry import dialects

    if name not in dialects():
        raise ConfigError(f"`dialect` in {where} cannot be `{name}`", hint=_one_of(dialects()))


@cache
def field_types(kind: type[msgspec.Struct]) -> dict[str, JSONValue]:
    """Return the types of a struct's fields, by name."""
    return get_type_hints(kind, include_extras=True)


def without_bounds(hint: JSONValue) -> JSONValue:
    """Return the type without its `Annotated` bounds."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def describe_type(hint: JSONValue) -> str:
    """Describe the allowed values of a type, for error messages.

    >>> describe_type(Annotated[int, msgspec.Meta(ge=0, le=10)])
    'a whole number from 0 to 10'
    """
    bounds = _bounds(hint)
    hint = without_bounds(hint)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(choice or '""' for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list; each item must be {describe_type(get_args(hint)[0])}"
    return {bool: "true or false", int: f"a whole number{bounds}", str: "a string"}.get(hint, "a table")


def _bounds(hint: JSONValue) -> str:
    """Describe the numeric bounds of a type; return an empty string if it has none."""
    meta = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, msgspec.Meta)), None)
    if meta is None or meta.ge is None:
        return ""
    return f" of at least {meta.ge}" if meta.le is None else f" from {meta.ge} to {meta.le}"


def _one_of(names: Iterable[str]) -> str:
    return f"use one of {', '.join(names)}"


def read_table(source: str | Mapping[str, JSONValue], where: str, *, dialects: bool = True) -> Table:
    """Parse a table from TOML text or values. `dialects` checks dialect names. Raises ConfigError if it is invalid."""
    if isinstance(source, str):
        try:
            source = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{where} is not valid TOML: {error}") from None
    if unknown := set(source) - {"providers", "models", "families"}:
        raise ConfigError(f"unknown table `{min(unknown)}` in {where}", hint="use providers, models or families")
    providers = {
        name.lower(): _provider(name, row, where, dialects) for name, row in _tables(source, "providers", where)
    }
    models = {
        name.lower(): check_fields(Profile, row, f"{where}, [models.{name}]", dialects=dialects)
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
    where = f"{where}, [providers.{name}]"
    own, rest = _split_fields(row, _ProviderRow)
    fields = check_fields(Profile, rest, where, dialects=dialects)
    return Provider(name=name.lower(), fields=fields, **check_fields(_ProviderRow, own, where))


def _family(row: JSONValue, where: str, dialects: bool) -> Family:
    where = f"{where}, families"
    if not is_object(row) or not {"name", "words"} <= row.keys():
        raise ConfigError(f"{where} must be tables with a `name` and `words`")
    own, rest = _split_fields(row, _FamilyRow)
    if "capability" in rest:
        raise ConfigError(f"`capability` is not allowed in {where}", hint="set it for a provider or a model")
    return Family(fields=check_fields(Profile, rest, where, dialects=dialects), **check_fields(_FamilyRow, own, where))


def _split_fields(row: JSONObject, kind: type[msgspec.Struct]) -> tuple[JSONObject, JSONObject]:
    """Split a row into the fields of `kind` and the others."""
    names = kind.__struct_fields__
    return {k: v for k, v in row.items() if k in names}, {k: v for k, v in row.items() if k not in names}


@cache
def builtin_table() -> Table:
    """Load the built-in profile table."""
    source = read_toml("planning/profiles.toml", dict[str, JSONValue])
    return read_table(source, "profiles.toml", dialects=False)  # a test checks the dialects


# ---- names and hosts

_URL = re.compile(r"(https?)://(?:[^/?#@\\]*@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?=[/?#]|\Z)", re.ASCII)
_USUAL_PORTS = {"https": "443", "http": "80"}


def _origin(url: str) -> tuple[str, str]:
    """Return scheme and host, with the port unless it is the default; both are empty for an unusual URL."""
    match = _URL.match(url.strip().lower())
    if match is None:
        return "", ""
    scheme, host, port = match.groups()
    usual = port in (None, _USUAL_PORTS[scheme])
    return scheme, host.rstrip(".") if usual else f"{host}:{port}"


def _parents(host: str) -> Iterator[str]:
    """Yield the parent domains of a host."""
    _, dot, rest = host.partition(".")
    while dot:
        yield rest
        _, dot, rest = rest.partition(".")


def _normalised_url(base_url: str) -> str:
    """Normalise a base URL for lookups."""
    require(base_url, str, "a base URL", "a string")
    return base_url.strip().rstrip("/").lower()


def best_pattern(patterns: Iterable[str], name: str) -> str | None:
    """Return the pattern equal to the name, else the longest one that matches; `*` matches any text."""
    best: str | None = None
    for pattern in patterns:
        if pattern == name:
            return pattern
        if (best is None or len(pattern) > len(best)) and _matches(pattern, name):
            best = pattern
    return best


def _matches(pattern: str, name: str) -> bool:
    head, *parts = pattern.split("*")
    if not parts or not name.startswith(head):
        return False
    at = len(head)
    *middle, tail = parts
    for part in middle:
        index = name.find(part, at)
        if index < 0:
            return False
        at = index + len(part)
    return len(name) - len(tail) >= at and name.endswith(tail)


def _has_word(name: str, word: str) -> bool:
    """Whether the word occurs in the name without a letter directly before it."""
    at = name.find(word)
    while at > 0 and name[at - 1].isalpha():
        at = name.find(word, at + 1)
    return at >= 0


# ---- looking up


class Capabilities:
    """Looks up profiles in overrides, learned fields and the profile table, in this order of precedence.

    Among overrides, the source decides first (API over environment over files), then the narrower scope (model over
    upstream over provider).
    """

    def __init__(self, table: Table | None = None) -> None:
        self._table = table if table is not None else builtin_table()
        self._aliases = {alias: row.name for row in self._table.providers.values() for alias in row.aliases}
        #: The profile fields that a probe has measured, by provider, model and base URL.
        self._measured: dict[tuple[str, str, str], _ProfileLayer] = {}
        self._configured: tuple[tuple[str, Overrides], ...] = ()
        self._api = Overrides()
        #: Keys contain the id of what was learned; values hold the object, so the id stays valid.
        self._cache: dict[tuple[str, str, str, int], tuple[Learned | None, ProfileMatch]] = {}

    def canonical(self, provider: str) -> str:
        """Resolve an alias to the provider's name in the table."""
        require(provider, str, "a provider", "a string")
        name = provider.strip().lower()
        return self._aliases.get(name, name)

    def model_key(self, model: str) -> str:
        """Normalise `provider:model` for lookups. A model without a provider matches every provider."""
        require(model, str, "a model", "a string like `provider:model`")
        provider, rest = split_model(model.strip())
        return f"{self.canonical(provider) or '*'}:{rest}".lower()

    def provider(self, name: str) -> Provider | None:
        """Return the provider's row, or None if it is not in the table."""
        return self._table.providers.get(self.canonical(name))

    @property
    def provider_names(self) -> tuple[str, ...]:
        return (*self._table.providers, *self._aliases)

    def provider_at(self, base_url: str) -> Provider | None:
        """Return the provider to whose hosts a URL belongs. Self-hosted software may be on any host."""
        rows = (row for row in self._table.providers.values() if "*" not in row.hosts)
        return next((row for row in rows if row.owns(base_url)), None)

    def find(self, provider: str, model: str, base_url: str = "", learned: Learned | None = None) -> ProfileMatch:
        """Look up the profile of a model. An unknown model is assumed to have no native tool calling.

        `learned` takes precedence over the table and probes, and overrides take precedence over it.
        """
        key = (provider, model, base_url, id(learned))
        cached = self._cache.get(key)
        if cached is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            model = model or _DEFAULT_MODELS.get(provider, "")
            match = self._look_up(self.canonical(provider), model, base_url, learned)
            cached = self._cache[key] = (learned, match)
        return cached[1]

    def override_provider(self, provider: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
        """Override the profile of a provider's models, on any host."""
        fields = _fields(what, f"the override of `{provider}`")
        self._update_overrides(providers={**self._api.providers, self.canonical(provider): fields})

    def override_model(self, model: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
        """Override the profile of one `provider:model`, or of a model at every provider if none is named."""
        fields = _fields(what, f"the override of `{model}`")
        self._update_overrides(models={**self._api.models, self.model_key(model): fields})

    def configure(self, *sources: tuple[str, Overrides]) -> None:
        """Replace the overrides from the configuration. Later sources take precedence."""

        def canonical(rows: Overrides) -> Overrides:
            scopes = (_rekey(rows.providers, self.canonical), _rekey(rows.upstreams, _normalised_url))
            return Overrides(*scopes, _rekey(rows.models, self.model_key))

        self._configured = tuple((source, canonical(overrides)) for source, overrides in sources)
        self._cache.clear()

    def set_measured(
        self, provider: str, model: str, base_url: str, what: Capability | Mapping[str, JSONValue], why: str
    ) -> None:
        """Set the profile fields that a probe has measured. They replace those of the last probe."""
        fields = _fields(what, f"the measured profile of `{model}`")
        key = (self.canonical(provider), model, _normalised_url(base_url))
        if key not in self._measured and len(self._measured) >= _MAX_CACHED:
            del self._measured[next(iter(self._measured))]  # drop the oldest, because requests may contain any name
        self._measured[key] = _ProfileLayer("probe", fields, why)
        self._cache.clear()

    def forget(self, provider: str, model: str, base_url: str) -> None:
        """Drop what a probe has measured."""
        self._measured.pop((self.canonical(provider), model, _normalised_url(base_url)), None)
        self._cache.clear()

    def extend(self, table: Table) -> None:
        """Add a table, which takes precedence over the current one."""
        self._table = table.over(self._table)
        self._aliases |= {alias: row.name for row in table.providers.values() for alias in row.aliases}
        self._cache.clear()

    def _update_overrides(self, **scopes: dict[str, JSONObject]) -> None:
        self._api = msgspec.structs.replace(self._api, **scopes)
        self._cache.clear()

    def _look_up(self, provider: str, model: str, base_url: str, learned: Learned | None) -> ProfileMatch:
        values: JSONObject = {}
        decided = _ProfileLayer("unknown", {}, "")
        for layer in self._layers(provider, model, base_url, learned):
            values |= layer.fields
            if layer.rule in ("unknown", "foreign_host") or "capability" in layer.fields:
                decided = layer
        return ProfileMatch(Profile(**values), decided.rule, decided.why)

    def _layers(self, provider: str, model: str, base_url: str, learned: Learned | None) -> Iterator[_ProfileLayer]:
        """Yield all profile layers of a model, in increasing order of precedence."""
        row = self._table.providers.get(provider)
        name = f"{provider}:{model}".lower()
        yield from self._family(model.lower() if row else name)
        yield from self._from_table(row, provider, name, base_url)
        if (measured := self._measured.get((provider, model, _normalised_url(base_url)))) is not None:
            yield measured
        if learned is not None:
            yield _ProfileLayer("learned", *learned)
        for source, overrides in (*self._configured, ("override", self._api)):
            yield from _override_layers(source, overrides, provider, name, base_url)

    def _family(self, name: str) -> Iterator[_ProfileLayer]:
        for family in self._table.families:
            if any(_has_word(name, word) for word in family.words):
                yield _ProfileLayer("family", family.fields, "")
                return

    def _from_table(self, row: Provider | None, provider: str, name: str, base_url: str) -> Iterator[_ProfileLayer]:
        if row is None:
            unknown = f"about provider `{provider}`" if provider else "about a model without a provider"
            yield _ProfileLayer("unknown", {}, f"nothing is known {unknown}")
            return
        if not row.owns(base_url):
            yield _ProfileLayer("foreign_host", {}, "nothing is known about the server at this base URL")
            return
        yield _ProfileLayer("table.provider", row.fields, f"known for provider `{row.name}`")
        if pattern := best_pattern(self._table.models, name):
            yield _ProfileLayer("table.model", self._table.models[pattern], f"known for model `{pattern}`")


def _override_layers(
    source: str, overrides: Overrides, provider: str, name: str, base_url: str
) -> Iterator[_ProfileLayer]:
    """Yield the overrides from one source, in increasing order of precedence."""
    origin = {"override": "by an override", "env": "in the environment"}.get(source, "in the configuration")
    if provider in overrides.providers:
        yield _ProfileLayer(
            f"{source}.provider", overrides.providers[provider], f"set {origin} for provider `{provider}`"
        )
    if base_url and (url := _normalised_url(base_url)) in overrides.upstreams:
        yield _ProfileLayer(f"{source}.upstream", overrides.upstreams[url], f"set {origin} for this base URL")
    if pattern := best_pattern(overrides.models, name):
        yield _ProfileLayer(f"{source}.model", overrides.models[pattern], f"set {origin} for model `{pattern}`")


def _fields(what: Capability | Profile | Mapping[str, JSONValue], where: str) -> JSONObject:
    if isinstance(what, str):
        what = {"capability": what}
    elif isinstance(what, Profile):
        what = msgspec.structs.asdict(what)
    require(what, Mapping, where, "a capability, a profile or some of its fields")
    return check_fields(Profile, what, where)


def _rekey(tables: dict[str, JSONObject], key: Callable[[str], str]) -> dict[str, JSONObject]:
    return {key(name): fields for name, fields in tables.items()}


@cache
def capabilities() -> Capabilities:
    """Return the `Capabilities` object that this process shares."""
    return Capabilities()


def override_provider(provider: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
    """Override the capability, the whole profile or single fields for a provider's models, in this process."""
    capabilities().override_provider(provider, what)


def override_model(model: str, what: Capability | Profile | Mapping[str, JSONValue]) -> None:
    """Override the capability, the whole profile or single fields for one `provider:model`, in this process."""
    capabilities().override_model(model, what)

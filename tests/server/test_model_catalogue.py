"""Which upstream serves a model, by whatever name it is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak.errors import ConfigError
from toolspeak.server.proxy.model_catalogue import ModelCatalogue, ModelLocation, UnknownModel

UPSTREAMS = {
    "near": ("qwen3:8b", "llama-3", "shared"),
    "far": ("gpt-5*", "shared", "claude"),
    "any": (),
}
ALIASES = {"fast": "qwen3:8b", "smart": "far:gpt-5-pro", "wild": "any:x/y:z"}


@check_each(
    ("name", "place"),
    [
        ("llama-3", ModelLocation("near", "llama-3")),
        ("qwen3:8b", ModelLocation("near", "qwen3:8b")),
        ("shared", ModelLocation("near", "shared")),
        ("far:shared", ModelLocation("far", "shared")),
        ("near:qwen3:8b", ModelLocation("near", "qwen3:8b")),
        ("gpt-5-mini", ModelLocation("far", "gpt-5-mini")),
        ("far:gpt-5", ModelLocation("far", "gpt-5")),
        ("fast", ModelLocation("near", "qwen3:8b", "fast")),
        ("smart", ModelLocation("far", "gpt-5-pro", "smart")),
        ("wild", ModelLocation("any", "x/y:z", "wild")),
        ("any:whatever", ModelLocation("any", "whatever")),
        ("whatever/else:1", ModelLocation("any", "whatever/else:1")),
    ],
)
def test_a_name_leads_to_an_upstream_and_the_model_there(name: str, place: ModelLocation):
    assert ModelCatalogue(UPSTREAMS, ALIASES).find(name) == place


def test_what_ollamas_clients_put_behind_a_name_is_no_part_of_it():
    catalogue = ModelCatalogue({"near": ("llama-3",)}, {"fast": "llama-3"})
    assert catalogue.find("llama-3:latest") == ModelLocation("near", "llama-3")
    assert catalogue.find("fast:latest") == ModelLocation("near", "llama-3", "fast")
    assert ModelCatalogue({"near": ("m:latest",)}).find("m:latest") == ModelLocation("near", "m:latest")


@check_each("name", ["near:gpt-5", "far:llama-3", "near:", "gpt-4", "near:far:claude", "", "x" * 10_000])
def test_no_other_name_leads_anywhere(name: str):
    with pytest.raises(UnknownModel):
        ModelCatalogue({key: models for key, models in UPSTREAMS.items() if models}).find(name)


def test_an_unknown_name_is_answered_with_near_ones():
    catalogue = ModelCatalogue({"near": ("llama-3", "qwen3:8b")})
    with pytest.raises(UnknownModel) as caught:
        catalogue.find("lama-3")
    assert str(caught.value) == "unknown model `lama-3` (did you mean `llama-3`?)"
    with pytest.raises(UnknownModel, match="GET /v1/models"):
        catalogue.find("zzz")
    with pytest.raises(UnknownModel, match="the request has no `model`"):
        catalogue.find("")


@pytest.mark.requirement("R-T8")
def test_what_somebody_may_not_use_is_not_there_for_them():
    catalogue = ModelCatalogue(UPSTREAMS, ALIASES)

    def permits(place: ModelLocation) -> bool:
        return place.upstream == "near"

    assert catalogue.find("shared", permits) == ModelLocation("near", "shared")
    for name in ("far:shared", "smart", "gpt-5", "claude"):
        with pytest.raises(UnknownModel) as caught:
            catalogue.find(name, permits)
        assert "far:" not in str(caught.value).removeprefix(f"unknown model `{name}`")
    assert catalogue.names(permits) == {"fast": "near", "qwen3:8b": "near", "llama-3": "near", "shared": "near"}


@pytest.mark.requirement("R-T8")
def test_a_mistaken_name_is_answered_with_none_that_is_not_shown():
    with pytest.raises(UnknownModel) as caught:
        ModelCatalogue({"near": ("llama-3", "llama-5")}).find("llama-4", shows=lambda place: place.model != "llama-3")
    assert "llama-5" in str(caught.value)
    assert "llama-3" not in str(caught.value)


def test_all_names_are_listed_once_and_a_second_server_of_a_model_by_its_prefix():
    assert ModelCatalogue(UPSTREAMS, ALIASES).names() == {
        "fast": "near",
        "smart": "far",
        "wild": "any",
        "qwen3:8b": "near",
        "llama-3": "near",
        "shared": "near",
        "far:shared": "far",
        "claude": "far",
    }


def test_every_listed_name_is_found_where_the_list_says():
    catalogue = ModelCatalogue(UPSTREAMS, {**ALIASES, "claude": "near:llama-3"})
    for name, upstream in catalogue.names().items():
        assert catalogue.find(name).upstream == upstream


def test_an_alias_that_leads_nowhere_is_found_when_the_configuration_is_read():
    with pytest.raises(ConfigError, match="the alias `a` refers to `b`, which no upstream serves"):
        ModelCatalogue({"near": ("m",)}, {"a": "b"})
    # One alias does not lead to another: there are no circles.
    with pytest.raises(ConfigError):
        ModelCatalogue({"near": ("m",)}, {"a": "b", "b": "m"})


@pytest.mark.requirement("R-T12")
def test_hostile_names_take_no_time():
    catalogue = ModelCatalogue({f"u{number}": tuple(f"m{number}-{each}" for each in range(50)) for number in range(20)})

    def miss(name: str) -> Callable[[], object]:
        def find() -> None:
            with pytest.raises(UnknownModel) as caught:
                catalogue.find(name)
            assert len(str(caught.value)) < 400

        return find

    for unit in ("m", "m-", ":", ":latest"):
        assert_linear(lambda size, unit=unit: miss(unit * (size // len(unit))), 400_000)

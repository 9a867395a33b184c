"""Model providers by name."""

from __future__ import annotations

import subprocess
import sys

import pytest
from chat_server import KEY

from cnp_router.exceptions import InputError
from cnp_router.llm import (
    PROVIDERS,
    CachedChatModel,
    ChatModel,
    OfflineChatModel,
    OpenAIChatModel,
    build_model,
)
from cnp_router.llm import providers as module
from cnp_router.llm.providers import Provider

SERVER = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_builds_a_model(name, catalog):
    options = {"model": "tiny", "base_url": SERVER} if PROVIDERS[name].has_server else {}
    model = build_model(name, catalog, **options)
    assert isinstance(model, ChatModel)
    assert (model.server == SERVER) == PROVIDERS[name].has_server
    assert PROVIDERS[name].summary


def test_a_server_has_a_model_name_and_a_cache(catalog, tmp_path):
    model = build_model("openai", catalog, model="tiny", base_url=SERVER, cache=tmp_path)
    assert isinstance(model, CachedChatModel)
    assert isinstance(model.model, OpenAIChatModel)
    assert (model.name, model.server) == ("tiny", SERVER)


@pytest.mark.parametrize("option", ["model", "base_url", "cache"])
def test_the_offline_provider_takes_no_server(option, catalog, tmp_path):
    assert isinstance(build_model("offline", catalog), OfflineChatModel)
    with pytest.raises(InputError, match="asks no server"):
        build_model("offline", catalog, **{option: str(tmp_path)})


def test_a_provider_that_does_not_exist(catalog):
    with pytest.raises(InputError, match=r"'local' \(use one of: offline, .*openai.*\)"):
        build_model("local", catalog)


def test_a_further_provider_is_one_entry(catalog, monkeypatch):
    builder = "cnp_router.llm.openai_model:OpenAIChatModel"
    added = {**PROVIDERS, "mine": Provider("a server of my own", builder)}
    monkeypatch.setattr(module, "PROVIDERS", added)
    assert build_model("mine", catalog, base_url=SERVER).server == SERVER


def test_names_are_known_without_importing_what_builds():
    code = (
        "import sys, cnp_router.llm\n"
        "heavy = {'openai', 'pydantic', 'jsonschema', 'sklearn', 'httpx2', 'cnp_router.agents'}\n"
        "assert cnp_router.llm.PROVIDERS; print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_reprs_are_one_line_without_secrets(catalog, tmp_path):
    models = [
        build_model("offline", catalog),
        OpenAIChatModel("big", api_key=KEY),
        CachedChatModel(OpenAIChatModel("big", api_key=KEY), tmp_path),
    ]
    for model in models:
        assert "\n" not in repr(model)
        assert KEY not in repr(model)
        assert len(repr(model)) < 300

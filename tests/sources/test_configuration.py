from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace

import pytest

from cnp_router.exceptions import DataFileError, InputError, SourceUnavailableError
from cnp_router.sources.all_sources import Sources
from cnp_router.sources.configuration import KINDS, Kind, SourceRef, kind_of, read_a2a, read_sources
from cnp_router.sources.functions import FunctionSource
from cnp_router.sources.source import Call
from cnp_router.testing import ScriptedSource

TELLS = "import sys; sys.exit('said ' + sys.argv[1])"


class Recording(ScriptedSource):
    """A kind that keeps what it was made of."""

    trusted: bool

    def __init__(self, name, fields):
        super().__init__(name, {})
        self.fields = fields

    @classmethod
    def from_entry(cls, name, fields, *, folder, trusted):
        if "url" in fields and not str(fields["url"]).startswith("http"):
            raise InputError(f"url must begin with http, got {fields['url']!r}")
        source = cls(name, dict(fields))
        source.folder, source.trusted = folder, trusted
        return source


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    """All kinds only keep what they are given."""
    monkeypatch.setitem(sys.modules, "fake_kind", SimpleNamespace(Recording=Recording))
    for key in KINDS:
        monkeypatch.setitem(KINDS, key, Kind(key, "fake_kind:Recording"))


@pytest.fixture
def read(tmp_path):
    def read(document, *, name="mcp.json", **options):
        file = tmp_path / name
        text = document if isinstance(document, str) else json.dumps(document)
        file.write_text(text, encoding="utf-8")
        options = {"environ": {}, **options}
        return read_sources(file, **options)

    return read


def servers(**entries):
    return {"mcpServers": entries}


class TestFile:
    def test_an_mcp_json_as_it_is(self, read, tmp_path):
        entry = {"command": "npx", "args": ["-y", "server"], "env": {"A": "b"}, "type": "stdio"}
        found = read({**servers(files=entry), "inputs": [], "theme": "dark"})
        (source,) = found.sources
        assert (source.name, source.fields, source.folder) == ("files", entry, tmp_path)
        assert not source.trusted
        assert found.overrides == {}

    def test_all_kinds_in_their_order(self, read):
        found = read({key: {f"of-{key}": {}} for key in reversed(KINDS)})
        assert [source.name for source in found.sources] == [f"of-{key}" for key in KINDS]

    def test_what_entries_of_all_kinds_can_have(self, read):
        entry = {"trusted": True, "max_concurrency": 2, "effects": {"rm": "writes"}, "url": "http:"}
        found = read(servers(files=entry, off={"disabled": True, "command": "${MISSING}"}))
        (source,) = found.sources
        assert (source.trusted, source.max_concurrency) == (True, 2)
        assert source.fields == {"url": "http:"}
        assert found.overrides == {"files__rm": "writes"}

    def test_trusted_from_outside(self, read):
        assert read(servers(files={}), trusted=["files"]).sources[0].trusted

    def test_an_openapi_document(self, read, tmp_path):
        for name, text in [
            ("pets.yaml", "openapi: 3.1.0"),
            ("pets.YML", "swagger"),
            ("pets.json", '{"openapi": "3.0.3", "servers": [{"url": "/"}]}'),
        ]:
            (source,) = read(text, name=name).sources
            assert (source.name, source.fields) == ("pets", str(tmp_path / name))

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ("[]", "expected an object"),
            ("{", "not JSON"),
            ({"theme": "dark"}, "it names no sources"),
            ({"mcpServers": {}}, "it names no sources"),
            ({"mcpServers": ["time"]}, "'mcpServers' must be an object of names and entries"),
            (servers(time="uvx"), "mcpServers 'time': an entry must be an object, got 'uvx'"),
            (servers(time={"trusted": "yes"}), "mcpServers 'time': trusted must be true or false"),
            (servers(time={"disabled": 1}), "'time': disabled must be true or false"),
            (servers(time={"effects": ["a"]}), "'time': effects must be an object of tools"),
            (servers(time={"context": "public"}), "'time': context must be an object of tools"),
            (servers(time={"context": {"now": "secret"}}), "context must be public, private or"),
            (servers(time={"context": {"now": ["public"]}}), "got ['public'] for 'now'"),
            (servers(time={"context": {" ": "public"}}), "must not begin or end with a space"),
            (servers(time={"effects": {"a": "read"}}), "'time': effects must be 'reads'"),
            (servers(time={"max_concurrency": 0}), "'time': max_concurrency must be a whole"),
            (servers(time={"url": "ftp:"}), "mcpServers 'time': url must begin with http"),
            (servers(**{"a__b": {}}), "mcpServers 'a__b': the name of a source must"),
            ({**servers(time={}), "a2a": {"time": {}}}, "a2a 'time': the name stands under 'mcpSe"),
            ('{"mcpServers": {"a": {}, "a": {}}}', "key 'a' occurs twice"),
        ],
    )
    def test_what_cannot_be_used(self, read, document, said):
        with pytest.raises(DataFileError) as caught:
            read(document)
        assert "mcp.json" in str(caught.value)
        assert said in str(caught.value)

    def test_no_file(self, tmp_path):
        with pytest.raises(DataFileError, match="no such file"):
            read_sources(tmp_path / "mcp.json")


class TestVariables:
    def test_in_any_text(self, read):
        entry = {
            "command": "${HOME}/bin/${TOOL:-server}",
            "args": ["--key=${env:KEY}", "${EMPTY:-none}", "$HOME", "{HOME}"],
            "env": {"DEEP": {"er": "${KEY}"}, "${KEY}": 3},
        }
        environ = {"HOME": "/home/me", "KEY": "k3y", "EMPTY": ""}
        (source,) = read(servers(files=entry), environ=environ).sources
        assert source.fields == {
            "command": "/home/me/bin/server",
            "args": ["--key=k3y", "none", "$HOME", "{HOME}"],
            "env": {"DEEP": {"er": "k3y"}, "${KEY}": 3},
        }

    def test_a_value_is_not_looked_into(self, read):
        (source,) = read(servers(a={"command": "${A}"}), environ={"A": "${B}"}).sources
        assert source.fields == {"command": "${B}"}

    def test_one_that_is_missing_is_a_failure_of_its_source(self, read):
        entry = {"env": {"TOKEN": "${GITHUB_TOKEN}"}, "effects": {"rm": "writes"}}
        found = read(servers(github=entry, files={"command": "run"}))
        missing, good = found.sources
        assert (missing.name, kind_of(missing)) == ("github", "mcpServers")
        assert (good.name, good.fields) == ("files", {"command": "run"})
        assert found.overrides == {"github__rm": "writes"}
        said = (
            "source 'github': the environment has no variable 'GITHUB_TOKEN' (set it, or write "
            "${GITHUB_TOKEN:-default})"
        )

        async def use():
            async with Sources(found.sources, overrides=found.overrides) as every:
                loaded = await every.load()
                through = await every.call(Call(api="github__rm"))
            return loaded, through, await missing.call(Call(api="github__rm"))

        loaded, *results = asyncio.run(use())
        (problem,) = loaded.problems
        assert (type(problem), str(problem)) == (SourceUnavailableError, said)
        for result in results:
            assert (result.failure.kind, result.failure.message) == ("unavailable", said)
            assert result.failure.was_done == "no"

    def test_the_rest_of_an_entry_is_checked_all_the_same(self, read):
        with pytest.raises(DataFileError, match="max_concurrency"):
            read(servers(github={"command": "${NO}", "max_concurrency": 0}))
        with pytest.raises(DataFileError, match="the name of a source"):
            read(servers(a__b={"command": "${NO}"}))

    @pytest.mark.parametrize("reference", ["${input:key}", "${a-b}", "${}"])
    def test_what_is_no_variable(self, read, reference):
        (source,) = read(servers(github={"command": reference})).sources
        with pytest.raises(SourceUnavailableError) as caught:
            asyncio.run(source.apis())
        assert str(caught.value) == (
            f"source 'github': {reference} cannot be filled in here (use a variable, ${{NAME}})"
        )

    def test_a_secret_is_in_no_error(self, read):
        with pytest.raises(DataFileError) as caught:
            read(servers(a={"url": "${URL}"}), environ={"URL": "ftp://me:s3cret-of-mine@host"})
        assert "url must begin with http, got '***'" in str(caught.value)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"command": "${KEY}/run"}, "there is no program '***/run'"),
            ({"command": sys.executable, "cwd": "${KEY}"}, "there is no folder '***'"),
            ({"command": sys.executable, "args": ["-c", TELLS, "k=${KEY}"]}, "said k=***"),
            ({"command": sys.executable, "args": ["-c", TELLS, "${SHORT}"]}, "said abc"),
            ({"command": sys.executable, "args": ["-c", TELLS, "${DEFAULT:-given}"]}, "said given"),
            ({"url": "http://${HOST}:${PORT}/mcp"}, "no connection to ***:9:"),
        ],
    )
    def test_a_server_cannot_show_one(self, read, monkeypatch, entry, said):
        monkeypatch.undo()
        environ = {"KEY": "/s3cret-of-mine", "SHORT": "abc", "HOST": "127.0.0.1", "PORT": "9"}
        (source,) = read(servers(it=entry), environ=environ).sources

        async def use():
            async with source:
                with pytest.raises(SourceUnavailableError) as caught:
                    await source.apis()
                result = await source.call(Call(api="it__a"))
            return str(caught.value), result.failure.message

        for message in asyncio.run(use()):
            assert said in message
            assert "s3cret" not in message

    def test_those_of_the_process(self, read, monkeypatch):
        monkeypatch.setenv("CNP_ROUTER_TEST", "yes")
        (source,) = read(servers(a={"command": "${CNP_ROUTER_TEST}"}), environ=None).sources
        assert source.fields == {"command": "yes"}


class TestReferences:
    @pytest.mark.parametrize(
        ("text", "place", "name"),
        [
            ("spec.yaml", "spec.yaml", None),
            ("pets=spec.yaml", "spec.yaml", "pets"),
            ("pets = a=b.yaml", "a=b.yaml", "pets"),
            ("http://localhost:1/a?b=c", "http://localhost:1/a?b=c", None),
            ("pets=http://localhost:1/a?b=c", "http://localhost:1/a?b=c", "pets"),
            ("./a=b.yaml", "./a=b.yaml", None),
        ],
    )
    def test_parsed(self, text, place, name):
        assert SourceRef.parse(text) == SourceRef(place, name)

    def test_a_name_that_cannot_be_one(self):
        with pytest.raises(InputError, match="the name of a source"):
            SourceRef.parse("a__b=spec.yaml")

    @pytest.mark.parametrize(
        ("place", "name"),
        [
            ("http://agents.example:9999/a", "agents.example"),
            ("specs/pet_store.v1.yaml", "pet_store.v1"),
            ("__pets__of__mine_.json", "pets_of_mine"),
        ],
    )
    def test_what_has_no_name_is_called_by_its_place(self, place, name):
        assert SourceRef(place).named == name
        assert SourceRef(place, "mine").named == "mine"

    @pytest.mark.parametrize("place", ["___.yaml", "http:///a", "a" * 65])
    def test_a_place_that_gives_no_name(self, place):
        with pytest.raises(InputError, match=r"an id must|the name of a source"):
            _ = SourceRef(place).named

    def test_agents_have_a_url(self):
        agent = read_a2a(SourceRef("http://agents.example:9999/a"))
        assert (agent.name, agent.fields) == ("agents.example", "http://agents.example:9999/a")
        with pytest.raises(InputError, match="not the URL of an agent: 'agents'"):
            read_a2a(SourceRef("agents"))


def test_what_kinds_are_called(monkeypatch):
    monkeypatch.undo()
    assert kind_of(FunctionSource("a", {"it": lambda: 1})) == "functions"
    assert kind_of(ScriptedSource("a", {})) == "scripted source"


@pytest.mark.parametrize("key", ["mcpServers", "openapi", "a2a", "functions"])
def test_real_kinds_are_where_they_should_be(monkeypatch, key):
    monkeypatch.undo()
    assert callable(KINDS[key].load().from_entry)


def test_functions_of_a_file(read, monkeypatch, tmp_path):
    monkeypatch.undo()
    (tmp_path / "my_tools.py").write_text("def roll() -> int:\n    return 4\n")
    entry = {"module": "my_tools.py", "functions": ["roll"], "effects": {"roll": "reads"}}
    found = read({"functions": {"dice": entry}})
    (api,) = asyncio.run(found.sources[0].apis())
    assert api.id == "dice__roll"
    assert found.overrides == {"dice__roll": "reads"}


def test_so_many_functions_run_at_a_time(read, monkeypatch, tmp_path):
    monkeypatch.undo()
    code = (
        "import asyncio\nrunning = set()\n"
        "async def wait() -> int:\n"
        "    running.add(asyncio.current_task())\n"
        "    await asyncio.sleep(0.05)\n"
        "    return len(running)\n"
    )
    (tmp_path / "waiting_tools.py").write_text(code)
    entry = {"module": "waiting_tools.py", "functions": ["wait"], "max_concurrency": 20}

    async def main():
        async with Sources(read({"functions": {"it": entry}}).sources, max_concurrency=50) as every:
            return await asyncio.gather(*(every.call(Call(api="it__wait")) for _ in range(20)))

    assert {result.data for result in asyncio.run(main())} == {20}


def test_an_entry_says_whom_what_its_tools_give_may_reach(read):
    hr = {"command": "hr", "context": {"salary": "confidential", "*": "public"}}
    configured = read(servers(hr=hr, time={"command": "time"}))
    assert configured.classes == {"hr__salary": "confidential", "hr__*": "public"}
    assert "context" not in configured.sources[0].fields

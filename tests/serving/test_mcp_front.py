from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp import Client as McpClient
from mcp import MCPError
from mcp_gateways import EVENTS, make_gateway, make_sources, mcp_client
from tool_servers import no_process_left, script_entry

from cnp_router.catalog import Api, Catalog
from cnp_router.context import SharedContext
from cnp_router.exceptions import DataFileError, InputError, SourceUnavailableError
from cnp_router.routing import SpecificationRouter
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Gateway, GatewaySettings
from cnp_router.serving.mcp_front import server_of
from cnp_router.sources import McpServer, Sources

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(autouse=True)
def no_events():
    EVENTS.clear()


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


@ERAS
def test_three_tools_are_listed_and_those_that_are_always_visible(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(ask())
    assert [tool.name for tool in tools] == [
        *("search_tools", "route", "call_tool"),
        *("tools__add", "tools__wait"),
    ]
    assert tools[3].input_schema["required"] == ["a", "b"]
    assert tools[3].annotations.read_only_hint


@ERAS
def test_a_search_gives_tools_with_schemas_and_an_id_for_the_call(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            found = await client.call_tool(
                "search_tools", {"query": "weather forecast of a city: rain or wind", "k": 2}
            )
            search_id = found.structured_content["search_id"]
            inputs = {"name": "tools__forecast", "inputs": {"city": "Oslo"}}
            return found, await client.call_tool("call_tool", inputs | {"search_id": search_id})

    found, called = asyncio.run(ask())
    said = found.structured_content
    assert said["fits"] and 0 < said["confidence"] <= 1
    best = said["tools"][0]
    assert (best["name"], best["inputSchema"]["required"]) == ("tools__forecast", ["city"])
    assert len(said["tools"]) <= 2
    read = text_of(found)
    assert said["search_id"] in read and '"required":["city"]' in read
    assert len(read) < len(json.dumps(said))
    assert called.structured_content == {"city": "Oslo", "weather": "rain"}
    assert called.meta["cnp-router/search_id"] == said["search_id"]


class Doubtful(SpecificationRouter):
    def _answerable(self, scores, allowed):
        return 0.01


def test_what_a_model_leaves_out_may_be_null():
    async def ask():
        async with mcp_client() as client:
            arguments = {"name": "tools__listed", "inputs": None, "search_id": None}
            found = await client.call_tool("search_tools", {"query": "numbers", "k": None})
            return found, await client.call_tool("call_tool", arguments)

    found, called = asyncio.run(ask())
    assert not found.is_error and not called.is_error


def test_a_search_says_that_no_tool_fits():
    async def ask():
        async with mcp_client(router=Doubtful) as client:
            routed = await client.call_tool("route", {"request": "paint the fence"})
            return routed, await client.call_tool("search_tools", {"query": "paint the fence"})

    routed, found = asyncio.run(ask())
    assert "No tool fits" in text_of(routed)
    assert "No tool fits" in text_of(found)
    assert (found.structured_content["fits"], found.structured_content["tools"]) == (False, [])


def test_where_decisions_are_not_acted_on_every_tool_is_shown():
    async def ask():
        async with mcp_client(share=0.0) as client:
            return await client.call_tool("search_tools", {"query": "weather forecast"})

    found = asyncio.run(ask())
    assert len(found.structured_content["tools"]) == 11
    assert "confidence" not in text_of(found)


def test_route_says_how_sure_and_why_and_calls_nothing():
    async def ask():
        async with mcp_client() as client:
            return await client.call_tool("route", {"request": "delete a file"})

    routed = asyncio.run(ask())
    assert "tools__delete" in text_of(routed)
    assert routed.structured_content["verdict"] in text_of(routed)
    assert routed.structured_content["routing"]["recipients"]
    assert EVENTS == []


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search_tools", {}, "'query' is a required property"),
        ("search_tools", {"query": 3}, "3 is not of type 'string'"),
        ("search_tools", {"query": "  "}, "blank"),
        ("search_tools", {"query": "rain", "k": 0}, "k must be"),
        ("search_tools", {"query": "rain", "top": 3}, "does not take 'top'"),
        ("route", {"request": None}, "'request' is a required property"),
        ("call_tool", {"name": "tools__add", "inputs": "{}"}, "'{}' is not of type 'object'"),
        ("call_tool", {"name": "tools__add", "inputs": [1]}, "is not of type 'object'"),
        ("call_tool", {"name": "tools__add", "a": 1}, "goes into inputs"),
        ("call_tool", {"name": "tools__ad", "inputs": {}}, "unknown tool 'tools__ad'"),
        ("call_tool", {"name": "tools__add", "inputs": {"a": "?"}}, "inputs: "),
        ("call_tool", {"name": "tools__listed", "search_id": "zzz"}, "search"),
        ("tools__add", {"a": 1}, "'b' is a required property"),
    ],
)
@ERAS
def test_what_a_client_does_wrong_is_one_error_that_a_model_can_read(mode, tool, arguments, said):
    async def ask():
        async with mcp_client(mode=mode) as client:
            failed = await client.call_tool(tool, arguments)
            return failed, await client.call_tool("tools__add", {"a": 1, "b": 2})

    failed, after = asyncio.run(ask())
    assert failed.is_error and said in text_of(failed)
    assert len(failed.content) == 1
    assert text_of(after) == "3"


@ERAS
@pytest.mark.parametrize("name", ["nothing", "tools__forecast"])
def test_a_name_that_is_not_listed_is_an_error_of_the_protocol(mode, name):
    async def ask():
        async with mcp_client(mode=mode) as client:
            with pytest.raises(MCPError, match="call_tool") as caught:
                await client.call_tool(name, {})
            return caught.value.code

    assert asyncio.run(ask()) == -32602


def test_a_tool_that_is_always_visible_is_called_by_its_own_name_with_the_id_in_meta():
    async def ask():
        async with mcp_client() as client:
            found = await client.call_tool("search_tools", {"query": "sum of numbers"})
            meta = {"cnp-router/search_id": found.structured_content["search_id"]}
            good = await client.call_tool("tools__add", {"a": 1, "b": 2}, meta=meta)
            bad = await client.call_tool(
                "tools__add", {"a": 1, "b": 2}, meta={"cnp-router/search_id": "zzz"}
            )
            odd = await client.call_tool(
                "tools__add", {"a": 1, "b": 2}, meta={"cnp-router/search_id": 3}
            )
            return meta, good, bad, odd

    meta, good, bad, odd = asyncio.run(ask())
    assert good.meta["cnp-router/search_id"] == meta["cnp-router/search_id"]
    assert bad.is_error and odd.is_error and "must be a string" in text_of(odd)


@ERAS
def test_results_are_passed_through(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            drawn = await client.call_tool("call_tool", {"name": "odd__draw"})
            return drawn, await client.call_tool("call_tool", {"name": "tools__listed"})

    drawn, numbers = asyncio.run(ask())
    assert not drawn.is_error
    assert [block.type for block in drawn.content] == [
        *("text", "image", "audio", "resource", "resource", "resource", "resource_link", "text")
    ]
    assert (drawn.content[1].mime_type, drawn.content[1].data) == ("image/png", "UE5H")
    assert drawn.content[3].resource.text == "a note"
    assert drawn.content[4].resource.blob == "//4="
    assert (drawn.content[6].uri, drawn.content[6].name) == ("https://example.org/page", "page")
    assert "too large" in drawn.content[7].text
    assert drawn.structured_content == {"pages": 1}
    # Before 2026-07-28, what is structured has to be an object.
    assert numbers.structured_content == ([1, 2] if mode == "auto" else {"result": [1, 2]})
    assert text_of(numbers) == "[1, 2]"


def test_a_failure_has_its_kind_and_its_message():
    async def ask(name, **inputs):
        async with mcp_client() as client:
            return await client.call_tool("call_tool", {"name": name, "inputs": inputs})

    broken = asyncio.run(ask("tools__broken"))
    assert broken.is_error and "tool: RuntimeError: out of paper" in text_of(broken)
    assert broken.meta["cnp-router/failure"]["kind"] == "tool"
    died = asyncio.run(ask("odd__die"))
    assert died.is_error and text_of(died).startswith("lost: the connection was lost")
    assert "nobody knows whether it was done" in text_of(died)


@ERAS
def test_a_source_that_dies_in_a_call_and_is_called_again(mode):
    async def ask():
        entry = script_entry("odd")
        source = McpServer.from_entry("script", entry, folder=Path(), trusted=True)
        async with Sources([source]) as sources:
            names = [api.id for api in await sources.catalog()]
            writer = Client(allow_write=True)
            async with await make_gateway(sources, always=names, allow_write=True) as gateway:
                server = server_of(gateway, client=lambda _: writer)
                async with McpClient(server, mode=mode) as client:
                    died = await client.call_tool("call_tool", {"name": "script__die"})
                    return died, await client.call_tool("script__pid", {})

    with no_process_left():
        died, after = asyncio.run(ask())
    assert died.is_error and text_of(died).startswith("lost: ")
    assert not after.is_error and int(text_of(after)) > 0


@ERAS
def test_what_is_used_again_from_shared_context_says_so_in_meta(mode):
    async def ask():
        async with make_sources() as sources:
            router = SpecificationRouter(await sources.catalog())
            asked = {"name": "tools__forecast", "inputs": {"city": "Oslo"}}
            async with (
                Gateway(router, router.catalog, sources, context=SharedContext()) as gateway,
                McpClient(server_of(gateway, client=lambda _: Client()), mode=mode) as client,
            ):
                return [await client.call_tool("call_tool", asked) for _ in range(2)]

    first, again = asyncio.run(ask())
    assert (
        first.structured_content == again.structured_content == {"city": "Oslo", "weather": "rain"}
    )
    assert "cnp-router/notes" not in (first.meta or {})
    (note,) = again.meta["cnp-router/notes"]
    assert note.startswith("known from tools__forecast, ") and note.endswith(": not called again")


def test_a_write_without_permission_is_an_error_that_says_the_cure():
    async def ask(client, **settings):
        async with mcp_client(client, **settings) as connected:
            inputs = {"name": "tools__delete", "inputs": {"name": "a"}}
            return await connected.call_tool("call_tool", inputs)

    writer = Client(allow_write=True)
    for client, settings in ((Client(), {"allow_write": True}), (writer, {})):
        declined = asyncio.run(ask(client, **settings))
        assert declined.is_error and text_of(declined).startswith("declined: ")
        assert "(" in text_of(declined) or "needs" in text_of(declined)
    assert EVENTS == []
    assert not asyncio.run(ask(writer, allow_write=True)).is_error
    assert EVENTS == ["deleted a"]


def test_a_huge_result_is_cut_and_says_so():
    async def ask():
        async with mcp_client() as client:
            inputs = {"name": "tools__huge", "inputs": {"n": 3_000_000}}
            return await client.call_tool("call_tool", inputs)

    cut = asyncio.run(ask())
    assert len(cut.content[0].text) == 1_000_000
    assert cut.content[-1].text == "(cut: it had 3,000,000 bytes)"


@ERAS
def test_a_visible_tool_gives_what_its_output_schema_promises_or_an_error(mode):
    async def ask():
        async with mcp_client(mode=mode, always=("tools__report",)) as client:
            listed = (await client.list_tools()).tools[-1]
            small = await client.call_tool("tools__report", {"n": 2})
            return listed, small, await client.call_tool("tools__report", {"n": 2_000_000})

    listed, small, large = asyncio.run(ask())
    assert listed.output_schema["required"] == ["text"]
    assert small.structured_content == {"text": "xx"}
    assert large.is_error and large.content[0].text.startswith("unusable: ")
    assert large.content[-1].text.startswith("(cut: ")


@pytest.mark.parametrize("error", ["source", "file"])
def test_what_is_wrong_with_this_machine_is_not_told_in_full(error, monkeypatch, caplog):
    raised = {
        "source": SourceUnavailableError("mail", "/home/ann/mail.sock is gone"),
        "file": DataFileError("/home/ann/log.sqlite", "it is no log", cure="delete it"),
    }[error]

    async def fail(*args, **options):
        raise raised

    async def ask():
        async with make_sources() as sources, await make_gateway(sources) as gateway:
            monkeypatch.setattr(gateway, "search", fail)
            server = server_of(gateway, client=lambda _: Client())
            async with McpClient(server) as client:
                try:
                    return text_of(await client.call_tool("search_tools", {"query": "rain"}))
                except MCPError as exc:
                    return str(exc)

    said = asyncio.run(ask())
    assert "/home/ann" not in said
    assert "/home/ann" in caplog.text


@ERAS
def test_a_call_that_takes_too_long_is_ended(mode):
    async def ask():
        async with mcp_client(mode=mode, call_timeout=0.05) as client:
            return await client.call_tool("tools__wait", {"seconds": 30})

    late = asyncio.run(ask())
    assert late.is_error and text_of(late).startswith("timeout: ")
    assert EVENTS == ["started", "cancelled"]


def test_progress_is_passed_on_where_the_client_asks_for_it():
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async def ask(callback):
        async with mcp_client(mode="legacy") as client:
            arguments = {"name": "odd__copy"}
            return await client.call_tool("call_tool", arguments, progress_callback=callback)

    assert text_of(asyncio.run(ask(note))) == "copied"
    assert seen == [(0, 3, "page 1"), (1, 3, "page 2"), (2, 3, "page 3")]
    EVENTS.clear()
    asyncio.run(ask(None))
    assert EVENTS == []


@ERAS
def test_a_client_that_cancels_ends_the_call(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            call = asyncio.create_task(client.call_tool("tools__wait", {"seconds": 30}))
            while "started" not in EVENTS:
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            while "cancelled" not in EVENTS:
                await asyncio.sleep(0.01)
            return await client.call_tool("tools__add", {"a": 1, "b": 2})

    after = asyncio.run(asyncio.wait_for(ask(), 60))
    assert text_of(after) == "3"


@ERAS
def test_many_calls_at_once(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            calls = (client.call_tool("tools__add", {"a": n, "b": 1}) for n in range(100))
            return await asyncio.gather(*calls)

    assert [text_of(each) for each in asyncio.run(ask())] == [str(n + 1) for n in range(100)]


@ERAS
def test_the_catalog_is_read_as_resources(mode):
    async def ask():
        async with mcp_client(mode=mode) as client:
            pages = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resource_templates
            page = await client.read_resource(pages[0].uri)
            tools = json.loads(page.contents[0].text)["tools"]
            tool = await client.read_resource(tools[0]["uri"])
            for missing in ("catalog://tools/none", "catalog://pages/9", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="no resource"):
                    await client.read_resource(missing)
            return pages, templates, tools, json.loads(tool.contents[0].text)

    pages, templates, tools, tool = asyncio.run(ask())
    assert [page.uri for page in pages] == ["catalog://pages/1"]
    assert [each.uri_template for each in templates] == ["catalog://tools/{name}"]
    assert len(tools) == 11 and "inputSchema" not in tools[0]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("tools__add", ["a", "b"])


@ERAS
def test_a_client_sees_and_calls_only_what_it_may(mode):
    somebody = Client("bob", among=("tools__*",), exclude=("tools__wait",))

    async def ask():
        async with mcp_client(somebody, mode=mode) as client:
            page = await client.read_resource("catalog://pages/1")
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource("catalog://tools/odd__draw")
            with pytest.raises(MCPError):
                await client.call_tool("tools__wait", {"seconds": 0})
            return (
                [tool.name for tool in (await client.list_tools()).tools],
                [tool["name"] for tool in json.loads(page.contents[0].text)["tools"]],
                await client.call_tool("call_tool", {"name": "odd__draw"}),
                await client.call_tool("search_tools", {"query": "draw a picture, or wait"}),
            )

    listed, tools, refused, found = asyncio.run(ask())
    assert listed[3:] == ["tools__add"]
    assert "tools__wait" not in tools and all(name.startswith("tools__") for name in tools)
    assert refused.is_error and "unknown tool" in text_of(refused)
    assert "odd__" not in text_of(found) and "tools__wait" not in text_of(found)


@ERAS
def test_long_lists_come_in_pages(mode, monkeypatch):
    monkeypatch.setattr("cnp_router.serving.mcp_handlers._PAGE", 2)
    monkeypatch.setattr("cnp_router.serving.mcp_resources._PAGE", 3)

    async def ask():
        async with mcp_client(mode=mode) as client:
            names, cursor, pages = [], None, 0
            while cursor is not None or not pages:
                page = await client.list_tools(cursor=cursor)
                names += [tool.name for tool in page.tools]
                cursor, pages = page.next_cursor, pages + 1
                assert len(page.tools) <= 2
            for wrong in ("1", "99", "-2", "x", "0", ""):
                with pytest.raises(MCPError, match="no page"):
                    await client.list_tools(cursor=wrong)
            first = await client.list_resources()
            second = await client.list_resources(cursor=first.next_cursor)
            assert second.next_cursor is None
            uris = [each.uri for each in (*first.resources, *second.resources)]
            read = [await client.read_resource(uri) for uri in uris]
            return names, uris, [json.loads(each.contents[0].text)["tools"] for each in read]

    names, uris, pages = asyncio.run(ask())
    assert names == ["search_tools", "route", "call_tool", "tools__add", "tools__wait"]
    assert uris == [f"catalog://pages/{page}" for page in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [3, 3, 3, 2]


def test_a_key_of_the_client_makes_an_act_happen_once():
    async def ask():
        async with mcp_client(Client(allow_write=True), allow_write=True) as client:
            arguments = {"name": "tools__delete", "inputs": {"name": "a"}}
            for _ in range(2):
                await client.call_tool("call_tool", arguments, meta={"idempotencyKey": "one"})

    asyncio.run(ask())
    assert EVENTS == ["deleted a"]


def test_a_visible_tool_cannot_take_the_name_of_one_of_the_three():
    catalog = Catalog([Api("route", "Route", "Plans a route.")])
    settings = GatewaySettings(always=("route",))
    gateway = Gateway(SpecificationRouter(catalog), catalog, settings=settings)
    with pytest.raises(InputError, match="rename it"):
        server_of(gateway, client=lambda _: Client())


def test_a_fault_of_its_own_is_not_told_to_a_client(monkeypatch):
    async def ask():
        async with make_sources() as sources, await make_gateway(sources) as gateway:
            server = server_of(gateway, client=lambda _: Client())

            async def fail(*args, **options):
                raise RuntimeError("the password is 1234")

            monkeypatch.setattr(gateway, "search", fail)
            async with McpClient(server) as client:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("search_tools", {"query": "rain"})
                return str(caught.value)

    assert "1234" not in asyncio.run(ask())

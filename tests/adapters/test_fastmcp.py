"""FastMCP: clients find at most k of many tools, and what they call of them runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.providers import Provider
from fastmcp.server.transforms.search import (
    BM25SearchTransform,
    serialize_tools_for_output_markdown,
)
from fastmcp.tools import Tool, ToolResult
from many_tools import SPECIAL, many_tools

from cnp_router import Call, Catalog, InputError, Sources, SpecificationRouter
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.fastmcp import NOTHING_FITS, RoutedSearch, server_source


@pytest.fixture(autouse=True)
def _no_tracebacks():
    """FastMCP writes each error of a tool on stderr."""
    logger = logging.getLogger("fastmcp")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def town(*transforms, **how):
    """Return a server of three tools."""
    server = FastMCP("town", transforms=transforms, **how)

    @server.tool(annotations={"readOnlyHint": True})
    def weather(city: str) -> str:
        """Says whether it will rain in a city."""
        return f"Rain in {city}."

    @server.tool
    def send_sms(to: str, text: str) -> str:
        """Sends a text message to a phone."""
        return "sent"

    @server.tool
    def share_price(share: str) -> str:
        """Looks up the price of a share on the stock exchange."""
        raise ToolError("the exchange is closed")

    return server


def using(server, work):
    """Return what an asynchronous function returns of a client of a server."""

    async def main():
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(main())


async def found(client, query):
    """Return the names of the tools that a search finds, or what it says."""
    data = (await client.call_tool("search_tools", {"query": query})).data
    return data if isinstance(data, str) else [tool["name"] for tool in data]


async def listed(client):
    return [tool.name for tool in await client.list_tools()]


class Plain(Tool):
    """A tool without inputs that says its name: FastMCP takes long to make one of a function."""

    async def run(self, arguments):
        return ToolResult(f"{self.name} was called")


class Many(Provider):
    """Has tools that are not added one by one, which takes FastMCP long too."""

    def __init__(self, apis):
        super().__init__()
        nothing = {"type": "object", "properties": {}}
        self.tools = [
            Plain(name=api.id, description=api.description, parameters=nothing) for api in apis
        ]

    async def _list_tools(self):
        return self.tools


@pytest.fixture(scope="module")
def many():
    """Return a server of ten thousand tools, of which four are found."""
    apis = many_tools(10_000)
    choice = ToolChoice(SpecificationRouter(Catalog(apis)), k=4)
    return FastMCP("many", providers=[Many(apis)], transforms=[RoutedSearch(choice)])


class TestSearch:
    def test_at_most_k_of_ten_thousand_and_what_is_called_runs(self, many):
        async def work(client):
            names = await found(client, "Feed the jade heron")
            call = {"name": names[0], "arguments": {}}
            return await listed(client), names, await client.call_tool("call_tool", call)

        shown, names, said = using(many, work)
        assert shown == ["search_tools", "call_tool"]
        assert names[0] == "feed_jade_heron"
        assert len(names) <= 4
        assert said.content[0].text == "feed_jade_heron was called"

    def test_searches_at_once(self, many):
        wanted = list(SPECIAL.items())[:20]

        async def one(request):
            async with Client(many) as client:
                return await found(client, request)

        async def main():
            return await asyncio.gather(*(one(request) for _, request in wanted))

        results = asyncio.run(main())
        assert [names[0] for names in results] == [name for name, _ in wanted]
        assert max(map(len, results)) <= 4

    def test_whole_definitions(self):
        async def work(client):
            query = {"query": "Will it rain?"}
            return (await client.call_tool("search_tools", query)).data, await client.list_tools()

        (tool,), _ = using(town(RoutedSearch()), work)
        _, tools = using(town(), work_of)
        same = next(each for each in tools if each.name == "weather")
        assert tool["inputSchema"] == same.input_schema
        assert tool["annotations"] == {"readOnlyHint": True}

    def test_nothing_fits(self):
        async def work(client):
            return [await found(client, query) for query in ("zzz qqq", "Will it rain?")]

        assert using(town(RoutedSearch()), work) == [NOTHING_FITS, ["weather"]]

    def test_a_query_without_a_text(self):
        async def work(client):
            for query in ("", " \n"):
                with pytest.raises(ToolError, match="query has no text"):
                    await found(client, query)
            return await found(client, "Will it rain?")

        assert using(town(RoutedSearch()), work) == ["weather"]

    def test_a_serialiser_of_ones_own(self):
        routed = RoutedSearch(search_result_serializer=serialize_tools_for_output_markdown)
        said = using(town(routed), lambda client: said_to(client, "Will it rain?"))
        assert said.startswith("### weather")
        assert using(town(routed), lambda client: said_to(client, "zzz")) == NOTHING_FITS

    def test_those_that_are_always_visible(self):
        routed = RoutedSearch(ToolChoice(k=5, always=["send_sms"]), always_visible=["share_price"])

        async def work(client):
            sent = (await client.call_tool("send_sms", {"to": "+81", "text": "Hi"})).data
            queries = ("Send a text message to a phone", "Will it rain?")
            return await listed(client), sent, [await found(client, query) for query in queries]

        shown, sent, results = using(town(routed), work)
        assert sorted(shown) == ["call_tool", "search_tools", "send_sms", "share_price"]
        assert sent == "sent"
        assert results == [NOTHING_FITS, ["weather"]]

    def test_names_of_its_own(self):
        routed = RoutedSearch(search_tool_name="find", call_tool_name="use")
        assert using(town(routed), listed) == ["find", "use"]

    def test_tools_that_come_and_change(self):
        server = town(RoutedSearch())

        async def work(client):
            before = await found(client, "Book a seat in a train")

            @server.tool
            def book(train: str) -> str:
                """Books seats in trains."""
                return "booked"

            after = await found(client, "Book a seat in a train")
            server.local_provider.remove_tool("book")
            gone = await found(client, "Book a seat in a train")

            @server.tool(name="weather")
            def election(year: int) -> str:
                """Forecasts the results of elections."""
                return "?"

            return before, after, gone, await found(client, "results of elections")

        result = using(server, work)
        assert result == (NOTHING_FITS, ["book"], NOTHING_FITS, ["weather"])

    def test_what_a_client_may_not_see_is_neither_found_nor_called(self):
        server = town(RoutedSearch())
        server.disable(names={"weather"})

        async def work(client):
            call = {"name": "weather", "arguments": {"city": "Kyoto"}}
            with pytest.raises(ToolError, match="Unknown tool"):
                await client.call_tool("call_tool", call)
            return await found(client, "Will it rain?")

        assert using(server, work) == NOTHING_FITS

    def test_errors_reach_the_client(self):
        async def work(client):
            with pytest.raises(ToolError, match="the exchange is closed"):
                call = {"name": "share_price", "arguments": {"share": "ACME"}}
                await client.call_tool("call_tool", call)
            with pytest.raises(ToolError, match="city"):
                await client.call_tool("call_tool", {"name": "weather", "arguments": {}})
            return await found(client, "Will it rain?")

        assert using(town(RoutedSearch()), work) == ["weather"]

    def test_what_words_alone_do_not_find(self):
        """The transform of FastMCP finds the words of a question in any tool."""
        question = "Is there a way to talk to the whales?"

        def search(transform):
            return using(town(transform), lambda client: found(client, question))

        assert search(BM25SearchTransform()) != []
        assert search(RoutedSearch()) == NOTHING_FITS

    def test_what_cannot_be_used(self):
        with pytest.raises(InputError, match="choice must be"):
            RoutedSearch("everything")
        with pytest.raises(InputError, match="always_visible"):
            RoutedSearch(always_visible="weather")


async def work_of(client):
    return None, await client.list_tools()


async def said_to(client, query):
    return (await client.call_tool("search_tools", {"query": query})).data


class TestAsAContractor:
    def test_its_tools_are_apis(self):
        async def main():
            async with Sources([server_source("town", town(), trusted=True)]) as sources:
                catalog = await sources.catalog()
                call = Call(api="town__weather", inputs={"city": "Nara"})
                wrong = Call(api="town__share_price", inputs={"share": "ACME"})
                return catalog, await sources.call(call), await sources.call(wrong)

        catalog, done, failed = asyncio.run(main())
        assert catalog.ids == ("town__weather", "town__send_sms", "town__share_price")
        assert catalog["town__weather"].effects == "reads"
        assert catalog["town__send_sms"].effects != "reads"
        assert done.text == "Rain in Nara."
        assert (failed.failure.kind, failed.failure.message) == ("tool", "the exchange is closed")

    def test_its_lifespan_is_that_of_the_connection(self):
        happened = []

        @contextlib.asynccontextmanager
        async def lifespan(server):
            happened.append("begins")
            yield {}
            happened.append("ends")

        async def main():
            async with server_source("town", town(lifespan=lifespan)) as source:
                await source.apis()
                await source.apis()
                happened.append("asked")

        asyncio.run(main())
        assert happened == ["begins", "asked", "ends"]

    def test_what_is_no_server(self):
        with pytest.raises(InputError, match="server must be"):
            server_source("town", Client(town()))

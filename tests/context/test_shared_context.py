"""Shared context: what is known is not called again, and reaches whom it may."""

from __future__ import annotations

import asyncio

import pytest

from cnp_router.catalog import Api
from cnp_router.context import (
    ContextEntry,
    DataClasses,
    MemoryContextStore,
    SharedContext,
    SparseVectors,
    canonical,
)
from cnp_router.context.context_vectors import DenseVectors, cosine
from cnp_router.exceptions import (
    ChatAnswerError,
    ChatConnectionError,
    ContextStoreError,
    InputError,
)
from cnp_router.sources import Attachment, CallResult

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 1},
        "where": {"type": "object", "properties": {"unit": {"default": "C"}}},
    },
}
TODAY = Api("sky__today", "today", "The weather forecast of a city.", ("Weather",), CITY, "reads")
TWIN = Api("air__today", "today", "The weather forecast of a city.", ("Weather",), CITY, "reads")
PLACE = Api("map__place", "place", "Where a city is on the map.", ("Maps",), CITY, "reads")
WRITE = Api("sky__report", "report", "Reports the weather of a city.", (), CITY, "writes")
UNKNOWN = Api("sky__do", "do", "Does something.", (), CITY)
KYOTO = {"city": "Kyoto"}
RAIN = CallResult('{"rain": 0.4}')


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class World:
    """Shared context on a clock of its own; what is fetched again is scripted."""

    def __init__(self, **settings):
        self.clock = Clock()
        self.context = SharedContext(clock=self.clock, **{"alike": 0.9, **settings})
        self.fetched = []
        self.answers = []

    async def fetch(self, api, inputs):
        self.fetched.append((api.id, inputs))
        return self.answers.pop(0)

    def keep(self, api, inputs, result=RAIN, **how):
        return asyncio.run(self.context.keep(api, inputs, result, **how))

    def recall(self, api, inputs, **how):
        return asyncio.run(self.context.recall(api, inputs, **how))

    def offer(self, text, api, **how):
        return asyncio.run(self.context.offer(text, api, **how))


@pytest.fixture
def world():
    return World()


class TestCanonical:
    @pytest.mark.parametrize(
        "inputs",
        [
            {"city": "Kyoto", "days": 1},
            {"days": 1.0, "city": "Kyoto"},
            {"city": "Kyoto"},
        ],
    )
    def test_the_same_call_is_one_text(self, inputs):
        assert canonical(TODAY, inputs) == canonical(TODAY, {"city": "Kyoto", "days": 1})

    @pytest.mark.parametrize(
        "inputs",
        [
            {"city": "kyoto"},
            {"city": "Kyoto "},
            {"city": "Kyoto", "days": 2},
            {"city": "Kyoto", "days": True},
            {"city": "Kyoto", "days": "1"},
            {"city": "Kyoto", "days": None},
            {"city": ["Kyoto"]},
            {"city": "Kyoto", "more": 1},
            {},
        ],
    )
    def test_another_call_is_another_text(self, inputs):
        assert canonical(TODAY, inputs) != canonical(TODAY, {"city": "Kyoto"})

    def test_defaults_of_inner_objects_are_filled_in(self):
        assert canonical(TODAY, {"where": {}}) == canonical(TODAY, {"where": {"unit": "C"}})

    def test_letters_are_one_whether_composed_or_not(self):
        names = ["Zürich", "Zürich"]
        assert len({canonical(TODAY, {"city": name}) for name in names}) == 1

    def test_large_numbers_stay_apart(self):
        api = Api("a", "a")
        assert canonical(api, {"n": 2**53 + 1}) != canonical(api, {"n": float(2**53)})

    def test_what_json_cannot_hold_is_refused(self):
        with pytest.raises(InputError, match="cannot be written as JSON"):
            canonical(TODAY, {"city": {1}})


class TestRecall:
    def test_what_was_read_is_not_read_again(self, world):
        world.keep(TODAY, KYOTO)
        again = world.recall(TODAY, {"days": 1.0, "city": "Kyoto"})
        assert again.data == {"rain": 0.4}
        assert again.notes == ("known from sky__today, 0 s ago: not called again",)
        assert world.context.counts == {"kept": 1, "recalled": 1}

    @pytest.mark.parametrize(
        "result",
        [
            CallResult("sunny"),
            CallResult('{"a": 1}'),
            CallResult('{"a":1}', {"a": 1}),
            CallResult("one", {"a": 1}),
            CallResult("", {"a": [1, None]}),
            CallResult("null"),
            CallResult(""),
        ],
    )
    def test_what_is_recalled_is_what_was_given(self, world, result):
        world.keep(TODAY, KYOTO, result)
        again = world.recall(TODAY, KYOTO)
        assert again.data == result.data
        assert again.text == result.text or not result.text

    def test_another_call_is_not_known(self, world):
        world.keep(TODAY, KYOTO)
        assert world.recall(TODAY, {"city": "Nara"}) is None
        assert world.recall(PLACE, KYOTO) is None

    def test_it_holds_for_its_time(self, world):
        world.keep(TODAY, KYOTO)
        world.clock.now += 299
        assert world.recall(TODAY, KYOTO) is not None
        world.clock.now += 1
        assert world.recall(TODAY, KYOTO) is None

    @pytest.mark.parametrize("api", [WRITE, UNKNOWN])
    def test_what_may_change_something_is_never_recalled(self, world, api):
        first, second = world.keep(api, KYOTO), world.keep(api, KYOTO)
        assert first != second
        assert world.recall(api, KYOTO) is None

    def test_what_read_once_and_now_writes_is_not_recalled(self, world):
        world.keep(TODAY, KYOTO)
        changed = Api(TODAY.id, "today", TODAY.description, (), CITY, "writes")
        assert world.recall(changed, KYOTO) is None

    def test_what_wrote_once_and_now_reads_is_not_recalled(self, world):
        world.keep(WRITE, KYOTO)
        reads = Api(WRITE.id, "report", WRITE.description, (), CITY, "reads")
        assert world.recall(reads, KYOTO) is None

    def test_what_is_one_users_is_no_others(self, world):
        world.keep(TODAY, KYOTO, user="aiko")
        assert world.recall(TODAY, KYOTO) is None
        assert world.recall(TODAY, KYOTO, user="ben") is None
        assert world.recall(TODAY, KYOTO, user="aiko") is not None

    def test_a_failure_is_not_kept(self, world):
        with pytest.raises(InputError, match="only what succeeded"):
            world.keep(TODAY, KYOTO, CallResult.failed("tool", "no"))

    @pytest.mark.parametrize(
        "result",
        [
            CallResult("sunny", is_cut=True),
            CallResult("sunny", attachments=(Attachment("image/png", b"1"),)),
            CallResult("x" * 1_000_001),
        ],
    )
    def test_what_is_not_whole_is_not_kept_and_takes_the_place_of_what_was(self, world, result):
        world.keep(TODAY, KYOTO)
        assert world.keep(TODAY, KYOTO, result) == ""
        assert world.recall(TODAY, KYOTO) is None

    def test_what_is_written_makes_what_was_read_there_old(self, world):
        world.keep(TODAY, KYOTO)
        world.keep(PLACE, KYOTO)
        asyncio.run(world.context.written(WRITE))
        assert world.recall(TODAY, KYOTO) is None
        assert world.recall(PLACE, KYOTO) is not None

    def test_what_was_asked_before_something_was_written_is_not_kept(self, world):
        began = asyncio.run(world.context.begins(TODAY))
        asyncio.run(world.context.written(UNKNOWN))
        world.keep(TODAY, KYOTO, as_of=began)
        assert world.recall(TODAY, KYOTO) is None
        world.keep(TODAY, KYOTO, as_of=asyncio.run(world.context.begins(TODAY)))
        assert world.recall(TODAY, KYOTO) is not None

    def test_what_another_process_writes_counts_too(self, world):
        other = SharedContext(world.context.store, clock=world.clock)
        began = asyncio.run(other.begins(TODAY))
        world.keep(TODAY, KYOTO)
        assert asyncio.run(other.recall(TODAY, KYOTO)) is not None
        asyncio.run(world.context.written(WRITE))
        assert asyncio.run(other.recall(TODAY, KYOTO)) is None
        asyncio.run(other.keep(TODAY, KYOTO, RAIN, as_of=began))
        assert world.recall(TODAY, KYOTO) is None

    def test_what_was_written_there_is_old_for_as_long_as_entries_live(self, world):
        world.context.ttl = 600
        world.keep(TODAY, KYOTO)
        asyncio.run(world.context.written(WRITE))
        for _ in range(4):
            world.clock.now += 150
            assert world.recall(TODAY, KYOTO) is None

    def test_reading_makes_nothing_old(self, world):
        world.keep(TODAY, KYOTO)
        asyncio.run(world.context.written(TODAY))
        assert world.recall(TODAY, KYOTO) is not None


@pytest.mark.parametrize(
    "result",
    [
        CallResult('{"rain": 1}'),
        CallResult("", {"rain": 1}),
        CallResult('{"rain": 1}', {"rain": 1}),
        CallResult("It rains.", {"rain": 1}),
        CallResult("dry", "dry"),
    ],
    ids=str,
)
def test_a_result_comes_back_as_it_was_given(world, result):
    world.keep(TODAY, KYOTO, result)
    found = world.recall(TODAY, KYOTO)
    assert (found.text, found.structured) == (result.text, result.structured)


class TestEquivalents:
    def test_the_same_data_of_another_source_is_known(self, world):
        world.context.know([TODAY, TWIN, PLACE])
        world.keep(TWIN, KYOTO)
        assert world.recall(TODAY, KYOTO).notes[0].startswith("known from air__today")
        assert world.recall(TODAY, {"city": "Nara"}) is None
        assert world.recall(PLACE, KYOTO) is None

    def test_words_alone_make_nothing_the_same_unless_that_is_wanted(self):
        world = World(alike=None)
        world.context.know([TODAY, TWIN])
        world.keep(TWIN, KYOTO)
        assert world.recall(TODAY, KYOTO) is None
        assert world.recall(TWIN, KYOTO) is not None

    @pytest.mark.parametrize(
        "other",
        [
            Api("sky__past", "today", TODAY.description, ("Weather",), CITY, "reads"),
            Api("air__today", "today", TODAY.description, ("Weather",), CITY, "writes"),
            Api("air__today", "today", TODAY.description, ("Weather",), None, "reads"),
            Api("air__today", "today", "The population of a city.", ("Weather",), CITY, "reads"),
        ],
    )
    def test_what_is_only_alike_is_not(self, world, other):
        world.context.know([TODAY, other])
        world.keep(other, KYOTO)
        assert world.recall(TODAY, KYOTO) is None

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                "Returns the lowest temperature of a city.",
                "Returns the highest temperature of a city.",
            ),
            ("Lists open issues of a city.", "Lists closed issues of a city."),
            ("Gets the buying price in a city.", "Gets the selling price in a city."),
            ("Lists departures of trains from a city.", "Lists arrivals of trains in a city."),
        ],
    )
    def test_what_differs_in_a_word_is_something_else(self, world, sample, one, other):
        first, second = (
            Api(f"s{n}__get", "get", said, (), CITY, "reads") for n, said in enumerate((one, other))
        )
        world.context.know([first, second, *sample.catalog])
        world.keep(first, KYOTO)
        assert world.recall(second, KYOTO) is None

    def test_what_is_given_as_equivalent_is(self):
        world = World(equivalents=lambda api: [PLACE.id, "gone__today"])
        world.context.know([TODAY, PLACE])
        world.keep(PLACE, KYOTO)
        assert world.recall(TODAY, KYOTO) is not None

    def test_what_is_given_needs_the_same_parameters_all_the_same(self):
        other = Api("air__now", "now", "The weather.", (), {"place": "string"}, "reads")
        world = World(equivalents=lambda api: [other.id])
        world.context.know([TODAY, other])
        world.keep(other, KYOTO)
        assert world.recall(TODAY, KYOTO) is None


class TestClasses:
    def test_what_is_confidential_is_not_recalled_for_another(self):
        world = World(classes={"air__today": "confidential"})
        world.context.know([TODAY, TWIN])
        world.keep(TWIN, KYOTO)
        assert world.recall(TODAY, KYOTO) is None
        assert world.recall(TWIN, KYOTO) is not None

    def test_a_class_that_became_stricter_counts(self, world):
        world.keep(TODAY, KYOTO, text="the weather in Kyoto")
        world.context.classes = DataClasses({"sky__today": "confidential"})
        assert world.offer("the weather in Kyoto", UNKNOWN) == {}

    def test_what_is_confidential_never_comes_into_the_store_or_to_the_encoder(self):
        texts = []

        def encoder(some):
            texts.extend(some)
            return [[1.0, 0.0] for _ in some]

        store = MemoryContextStore(clock=lambda: 1_000.0)
        world = World(store=store, vectors=encoder, classes={"hr__*": "confidential"})
        salary = Api("hr__salary", "salary", "Salaries.", (), None, "reads")
        tax = Api("hr__tax", "tax", "Taxes.", (), None, "reads")
        first = world.keep(salary, {"of": "canary"}, CallResult("canary"))
        assert world.recall(salary, {"of": "canary"}).text == "canary"
        world.keep(tax, {"on": "canary"}, CallResult("canary"), dependencies=[first])
        assert len(store) == 0
        assert texts == []
        assert world.offer("canary", salary) == {}

    def test_what_is_made_from_something_confidential_is_confidential(self):
        store = MemoryContextStore(clock=lambda: 1_000.0)
        world = World(store=store, classes={"hr__salary": "confidential"})
        salary = Api("hr__salary", "salary", "Salaries.", (), None, "reads")
        words = Api("hr__words", "words", "In words.", (), None, "reads")
        first = world.keep(salary, {}, CallResult("canary"))
        world.keep(words, {"number": 1}, CallResult("canary"), dependencies=[first])
        assert len(store) == 0
        with pytest.raises(InputError, match="is confidential: what 'sky__today' gives cannot"):
            world.keep(TODAY, KYOTO, dependencies=[first])

    @pytest.mark.parametrize(
        ("of_first", "of_second", "expected"),
        [
            ("public", "public", "public"),
            ("private", "public", "private"),
            ("public", "private", "private"),
            ("confidential", "public", "confidential"),
            ("confidential", "private", "confidential"),
        ],
    )
    @pytest.mark.parametrize("is_gone", [False, True])
    def test_what_is_made_has_the_strictest_class(self, of_first, of_second, expected, is_gone):
        world = World(classes={"hr__a": of_first, "hr__b": of_second}, ttl=300.0)
        a, b = (Api(f"hr__{n}", n, "Says.", (), None, "reads") for n in "ab")
        first = world.keep(a, {})
        world.clock.now += 301 if is_gone else 10
        second = world.keep(b, {}, dependencies=[first])
        made = asyncio.run(world.context.get(second)).entry
        assert made.data_class == expected

    def test_no_number_of_steps_makes_private_data_public(self):
        world = World(classes={"hr__profile": "private", "text__*": "public"}, threshold=0)
        apis = [
            Api(i, i, "Says.", (), None, "reads") for i in ("hr__profile", "text__a", "text__b")
        ]
        needed = []
        for api in apis:
            needed = [world.keep(api, {}, text="who Aiko is", dependencies=needed)]
        entries = asyncio.run(world.context.store.live())
        assert [entry.data_class for entry in entries] == ["private"] * 3
        assert world.offer("who Aiko is", PLACE) == {}

    def test_what_is_confidential_and_gone_is_another_contractors_still(self):
        world = World(classes={"hr__salary": "confidential"})
        salary = Api("hr__salary", "salary", "Salaries.", (), None, "reads")
        first = world.keep(salary, {}, CallResult("canary"))
        world.clock.now += 301
        with pytest.raises(InputError, match="is confidential: what 'sky__today' gives cannot"):
            world.keep(TODAY, KYOTO, dependencies=[first])

    def test_what_nobody_here_knows_is_private(self):
        world = World(classes={"sky__today": "public"})
        world.keep(TODAY, KYOTO, dependencies=["ctx_of_another_process"])
        [entry] = asyncio.run(world.context.store.live())
        assert entry.data_class == "private"

    def test_what_is_fetched_again_keeps_its_class(self):
        world = World(classes={"map__place": "private", "sky__today": "public"})
        place = world.keep(PLACE, KYOTO, CallResult("35 N"))
        today = world.keep(TODAY, {"city": "35 N"}, dependencies=[place])
        world.clock.now += 200
        words = world.keep(TWIN, {"city": "rain"}, dependencies=[today])
        world.clock.now += 150
        world.answers = [CallResult("35 N"), RAIN]
        asyncio.run(world.context.get(words, fetch=world.fetch))
        assert asyncio.run(world.context.get(today)).entry.data_class == "private"

    def test_what_becomes_confidential_leaves_the_store(self):
        store = MemoryContextStore(clock=lambda: 1_000.0)
        world = World(store=store)
        world.keep(TODAY, KYOTO)
        assert len(store) == 1
        world.context.classes = DataClasses({"sky__today": "confidential"})
        world.keep(TODAY, KYOTO)
        assert len(store) == 0

    def test_a_class_for_a_tool_that_does_not_exist_is_refused(self):
        for name, works in (("sky__tody", False), ("sky__*", True), ("other__tool", True)):
            world = World(classes={name: "confidential"})
            if works:
                world.context.know([TODAY])
            else:
                with pytest.raises(InputError, match="'sky__tody', which does not exist"):
                    world.context.know([TODAY])

    def test_classes_may_be_asked(self):
        ask = {"sky__today": "public"}.get
        classes = DataClasses(ask, default="confidential")
        assert (classes.of("sky__today"), classes.of("map__place")) == ("public", "confidential")
        with pytest.raises(InputError, match="the class of 'a' must be"):
            DataClasses(lambda api: "secret").of("a")
        with pytest.raises(InputError, match="the class of 'a' must be"):
            DataClasses({"a": "secret"})
        with pytest.raises(InputError, match="a mapping of API ids"):
            DataClasses(["a"])


class TestOffers:
    def test_public_reaches_anyone_and_private_its_own_source(self):
        world = World(classes={"sky__today": "public"}, threshold=0.1)
        open_, own = world.keep(TODAY, KYOTO), world.keep(PLACE, KYOTO)
        assert set(world.offer("a city on the map", UNKNOWN)) == {open_}
        assert set(world.offer("a city on the map", PLACE)) == {open_, own}

    def test_only_what_is_similar_enough_is_offered_most_similar_first(self):
        world = World(classes=lambda _: "public", threshold=0.2, most_offered=2)
        names = [
            world.keep(TODAY, {"city": name}, text=f"the weather in {name}")
            for name in ("Kyoto", "Nara", "Oslo", "Bergen")
        ]
        found = world.offer("the weather in Oslo", UNKNOWN)
        assert next(iter(found)) == names[2]
        assert len(found) == 2
        assert world.offer("a poem about cats", UNKNOWN) == {}

    def test_nothing_of_the_data_counts_for_similarity(self):
        world = World(classes=lambda _: "public", threshold=0.01)
        world.keep(TODAY, KYOTO, CallResult("poem cats tax"))
        assert world.offer("poem cats tax", UNKNOWN) == {}

    def test_what_is_one_users_is_offered_to_no_other(self):
        world = World(classes=lambda _: "public", threshold=0)
        world.keep(TODAY, KYOTO, user="aiko")
        assert world.offer("weather", UNKNOWN, user="ben") == {}
        assert len(world.offer("weather", UNKNOWN, user="aiko")) == 1

    def test_what_was_read_before_something_was_written_is_not_offered(self):
        world = World(classes=lambda _: "public", threshold=0)
        world.keep(TODAY, KYOTO)
        place = world.keep(PLACE, KYOTO)
        asyncio.run(world.context.written(WRITE))
        assert [*world.offer("weather", UNKNOWN)] == [place]

    def test_what_has_expired_is_not_offered(self):
        world = World(classes=lambda _: "public", threshold=0)
        world.keep(TODAY, KYOTO)
        world.clock.now += 300
        assert world.offer("weather", UNKNOWN) == {}

    def test_the_threshold_fits_the_vectors(self):
        assert World().context.threshold.value() == 0.3
        dense = World(vectors=lambda texts: [[1.0] for _ in texts])
        assert dense.context.threshold.value() == 0.7
        world = World()
        apis = [
            Api(f"s{n}__a", f"tool{n}", f"Number {n} does thing {n} for {n % 3}.") for n in range(9)
        ]
        world.context.know(apis)
        pairs = SparseVectors().learn([])
        assert pairs == []
        assert 0.05 <= world.context.threshold.value() < 1

    def test_dense_vectors_decide_if_given(self):
        def encoder(texts):
            return [[1.0, 0.0] if "weather" in text.lower() else [0.0, 1.0] for text in texts]

        world = World(vectors=encoder, classes=lambda _: "public")
        name = world.keep(TODAY, KYOTO)
        assert [*world.offer("Weather?", UNKNOWN)] == [name]
        assert world.offer("a poem", UNKNOWN) == {}

    def test_each_text_is_encoded_once(self):
        asked = []

        def encoder(texts):
            asked.extend(texts)
            return [[1.0] for _ in texts]

        world = World(vectors=encoder, classes=lambda _: "public")
        for _ in range(3):
            world.keep(TODAY, KYOTO)
            world.offer("weather", UNKNOWN)
        assert len(asked) == 2
        stats = world.context.vectors.stats
        assert (stats.hits, stats.misses) == (4, 2)

    def test_the_cache_of_vectors_is_bounded(self):
        vectors = DenseVectors(lambda texts: [[1.0] for _ in texts], size=2)
        for text in "abcab":
            asyncio.run(vectors.of([text]))
        assert vectors.stats.misses == 5
        asyncio.run(vectors.of(["b", "a", "b"]))
        assert (vectors.stats.hits, vectors.stats.misses) == (3, 5)

    @pytest.mark.parametrize(
        "given", [[[1.0]], [1.0, 2.0], [["a"], ["b"]], [[float("nan")], [1.0]], None, [[1], [2, 3]]]
    )
    def test_an_encoder_that_gives_something_else_is_a_clear_error(self, given):
        with pytest.raises(ChatAnswerError, match="the encoder gave"):
            asyncio.run(DenseVectors(lambda texts: given).of(["a", "b"]))

    def test_an_encoder_that_raises_is_a_clear_error(self):
        with pytest.raises(ChatAnswerError, match="the encoder raised ZeroDivisionError"):
            asyncio.run(DenseVectors(lambda texts: 1 / 0).of(["a"]))

    def test_vectors_of_two_kinds_are_not_alike(self):
        assert cosine((1.0,), {"a": 1.0}) == cosine((1.0,), (1.0, 0.0)) == 0.0

    def test_an_encoder_that_is_lost_leaves_what_is_kept(self):
        def encoder(texts):
            raise ChatConnectionError("no connection")

        world = World(vectors=encoder)
        with pytest.raises(ChatConnectionError):
            world.keep(TODAY, KYOTO)
        assert world.recall(TODAY, KYOTO) is not None


class TestDependencies:
    """`made` is what `first` and `second` led to: an answer made from the city of a person."""

    @pytest.fixture
    def made(self, world):
        world.first = world.keep(PLACE, KYOTO, CallResult("35 N"))
        world.clock.now += 200
        return world.keep(TODAY, {"city": "35 N"}, dependencies=[world.first])

    def get(self, world, name, **how):
        return asyncio.run(world.context.get(name, **how))

    def test_what_holds_needs_nothing(self, world, made):
        assert self.get(world, made).notes == ()

    def test_an_expired_one_is_fetched_again(self, world, made):
        world.clock.now += 150
        world.answers = [CallResult("35 N")]
        assert self.get(world, made, fetch=world.fetch).notes == ()
        assert world.fetched == [("map__place", KYOTO)]
        assert world.recall(PLACE, KYOTO).text == "35 N"
        assert world.context.counts["fetched"] == 1

    def test_what_was_made_from_something_that_changed_is_gone(self, world, made):
        world.clock.now += 150
        world.answers = [CallResult("36 N")]
        assert self.get(world, made, fetch=world.fetch) is None
        assert self.get(world, made) is None
        assert world.recall(PLACE, KYOTO).text == "36 N"

    def test_what_was_read_anew_and_is_another_now_makes_it_old_too(self, world, made):
        world.keep(PLACE, KYOTO, CallResult("36 N"))
        assert self.get(world, made) is None

    @pytest.mark.parametrize("how", [{}, {"fetch": None}])
    def test_what_cannot_be_fetched_is_named(self, world, made, how):
        world.clock.now += 150
        [note] = self.get(world, made, **how).notes
        assert note == f"it was made from {world.first} of map__place, which has expired"
        assert note in world.recall(TODAY, {"city": "35 N"}).notes

    def test_a_fetch_that_fails_is_named(self, world, made):
        world.clock.now += 150
        world.answers = [CallResult.failed("busy", "later")]
        [note] = self.get(world, made, fetch=world.fetch).notes
        assert "could not be fetched again" in note

    def test_what_writes_is_never_fetched_again(self, world):
        first = world.keep(WRITE, KYOTO)
        world.clock.now += 200
        made = world.keep(TODAY, KYOTO, dependencies=[first])
        world.clock.now += 150
        [note] = self.get(world, made, fetch=world.fetch).notes
        assert "sky__report, which has expired" in note
        assert world.fetched == []

    def test_a_chain_is_followed(self, world, made):
        last = world.keep(PLACE, {"city": "x"}, dependencies=[made])
        world.clock.now += 150
        world.answers = [CallResult("36 N")]
        assert self.get(world, last, fetch=world.fetch) is None

    def test_what_nobody_here_made_is_named_by_its_id(self, world):
        name = world.keep(TODAY, KYOTO, dependencies=["ctx_elsewhere"])
        [note] = self.get(world, name).notes
        assert note == "it was made from ctx_elsewhere, which has expired"

    def test_what_has_an_expired_dependency_is_not_offered(self):
        world = World(classes=lambda _: "public", threshold=0)
        first = world.keep(PLACE, KYOTO)
        world.clock.now += 200
        made = world.keep(TODAY, KYOTO, dependencies=[first])
        assert set(world.offer("weather", UNKNOWN)) == {first, made}
        world.clock.now += 150
        assert world.offer("weather", UNKNOWN) == {}
        world.answers = [RAIN]
        assert made in world.offer("weather", UNKNOWN, fetch=world.fetch)

    def test_a_circle_is_refused_and_named(self, world):
        first = world.keep(TODAY, KYOTO)
        second = world.keep(PLACE, KYOTO, dependencies=[first])
        third = world.keep(PLACE, {"city": "x"}, dependencies=[second])
        with pytest.raises(InputError, match=f"{first} needs {third} needs {second} needs {first}"):
            world.keep(TODAY, KYOTO, dependencies=[third])
        with pytest.raises(InputError, match="cannot depend on itself"):
            world.keep(TODAY, KYOTO, dependencies=[first])

    def test_a_circle_that_others_made_ends(self, world):
        for name, needs in (("ctx_a", "ctx_b"), ("ctx_b", "ctx_a")):
            entry = ContextEntry(
                id=name, source="a", data=1, time=1_000.0, dependencies=(needs,), reads=True
            )
            asyncio.run(world.context.store.put(entry))
        assert self.get(world, "ctx_a") is not None


class TestErasing:
    def test_what_is_somebodys_goes_from_everywhere(self):
        world = World(classes={"hr__*": "confidential"})
        salary = Api("hr__salary", "salary", "Salaries.", (), None, "reads")
        world.keep(TODAY, KYOTO, user="aiko", execution="e1")
        world.keep(salary, {}, user="aiko", execution="e2")
        world.keep(TODAY, KYOTO, user="ben")
        assert asyncio.run(world.context.erase(user="aiko")) == 2
        assert world.recall(TODAY, KYOTO, user="aiko") is None
        assert world.recall(salary, {}, user="aiko") is None
        assert world.recall(TODAY, KYOTO, user="ben") is not None

    def test_somebody_must_be_named(self, world):
        with pytest.raises(InputError, match="whose context"):
            asyncio.run(world.context.erase())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ttl": 30}, "ttl in seconds must be a number from 60"),
        ({"ttl": 900}, "ttl in seconds must be a number from 60"),
        ({"threshold": 2}, "threshold must be"),
        ({"alike": -1}, "alike must be"),
        ({"store": {}}, "store must be of type ContextStore"),
        ({"vectors": 3}, "an encoder is a callable"),
        ({"most_offered": -1}, "most_offered"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, problem):
    with pytest.raises(InputError, match=problem):
        SharedContext(**settings)


def test_nothing_kept_is_shown():
    world = World()
    world.keep(TODAY, {"city": "canary"}, CallResult("canary"), text="canary")
    found = asyncio.run(world.context.find(TODAY, {"city": "canary"}))
    assert "canary" not in f"{world.context!r} {found!r} {world.context._lineage!r}"


def test_a_store_that_is_gone_is_an_error_of_its_own(tmp_path):
    from cnp_router.context import SqliteContextStore

    context = SharedContext(SqliteContextStore(tmp_path / "context.db"))
    asyncio.run(context.aclose())
    with pytest.raises(ContextStoreError, match="it is closed"):
        asyncio.run(context.recall(TODAY, KYOTO))


def test_a_user_may_know_that_a_change_leaves_what_was_read_as_it_is():
    send = Api("mail__send", "send", effects="writes")
    find = Api("mail__find", "find", effects="reads")

    async def left(outdates):
        context = SharedContext(outdates=outdates)
        await context.keep(find, {}, CallResult("1"))
        await context.written(send)
        return await context.recall(find, {})

    assert asyncio.run(left(None)) is None
    assert asyncio.run(left(lambda api: True)) is None
    kept = asyncio.run(left(lambda api: api != "mail__send"))
    assert kept is not None
    assert kept.text == "1"

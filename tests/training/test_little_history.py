"""Any amount of history: none, a mashup, a few."""

from __future__ import annotations

import numpy as np
import pytest
from planted import planted

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import TopK
from cnp_router.training import fit_router, load_router, verify_router
from cnp_router.training.corpus import LITTLE, MANY

ROUGH = "Its probabilities are rough: they were learned from "


@pytest.fixture(scope="module")
def unseen(sample):
    """The router of the sample's catalog, without its history."""
    return fit_router(sample.catalog)


class TestNoHistory:
    def test_an_empty_history_is_none(self, sample, unseen):
        empty = fit_router(sample.catalog, History([]))
        request = sample.history[0].description
        assert empty.route(request).to_dict() == unseen.route(request).to_dict()

    def test_specifications_find_what_is_needed(self, sample, unseen):
        found = [
            set(m.apis) & {api for api, _ in unseen.score(m.description).top(5)}
            for m in sample.history[::10]
        ]
        needed = [len(m.apis) for m in sample.history[::10]]
        assert sum(map(len, found)) / sum(needed) > 0.5

    def test_it_says_that_it_is_rough(self, unseen):
        routing = unseen.route("Text me when it rains tomorrow.")
        assert unseen.n_mashups == routing.n_mashups == 0
        assert routing.verdict.endswith(f"{ROUGH}no past requests of yours.")
        assert repr(unseen) == f"LearnedRouter({len(unseen.apis)} APIs, 0 mashups)"

    def test_its_summary(self, sample, unseen):
        assert unseen.summary["mashups"] == unseen.summary["apis_with_history"] == 0
        assert unseen.summary["categories"] == 0 and unseen.categories is None
        assert unseen.summary["decides"].startswith("no history: specifications decide")

    def test_probabilities_sum_to_about_what_is_needed(self, sample, unseen):
        expected = [unseen.score(m.description).probabilities.sum() for m in sample.history[::10]]
        needed = [len(m.apis) for m in sample.history[::10]]
        assert 0.5 < np.mean(expected) / np.mean(needed) < 1.5
        assert min(expected) >= 0

    def test_nothing_is_called_certain(self, sample, unseen):
        for mashup in sample.history[::25]:
            assert unseen.score(mashup.description).probabilities.max() < 0.999
            assert unseen.route(mashup.description).confidence < 0.999

    def test_nobody_is_asked_of_whom_nothing_speaks(self, unseen):
        routing = unseen.route("Text me when it rains tomorrow.")
        assert len(routing.recipients) < len(unseen.apis) / 2
        assert all(r.probability > 0 for r in routing.recipients)

    def test_nonsense_is_not_confident(self, unseen):
        routing = unseen.route("zzz qqq")
        assert not routing.is_confident and routing.answerable < 0.5

    def test_it_is_saved_loaded_and_verified(self, sample, unseen, tmp_path):
        unseen.save(tmp_path / "model")
        for load in (load_router, verify_router):
            loaded = load(tmp_path / "model")
            assert len(loaded.history) == loaded.n_mashups == 0
            for mashup in sample.history[:5]:
                request = mashup.description
                assert loaded.route(request).to_dict() == unseen.route(request).to_dict()

    def test_it_is_extended(self, unseen, tmp_path):
        new = Api("knitting", "Knitting", "Knits woollen sweaters, hats and socks.", ("Wool",))
        wider = unseen.extended([new])
        assert wider.route("Knit a woollen sweater.").recommendation[0] == "knitting"
        wider.save(tmp_path / "model")
        assert load_router(tmp_path / "model").recommend("Knit a woollen sweater.")[0] == "knitting"

    def test_it_observes_from_nothing_up(self, sample):
        router = fit_router(sample.catalog)
        request = "What should I cook with leeks tonight?"
        assert router.observe(Mashup("m1", request, ("flickr",))) == 1
        assert "flickr" in [api for api, _ in router.score(request).top(5)]
        assert router.n_mashups == router.summary["mashups"] == 1
        assert router.summary["apis_with_history"] == 1
        assert router.summary["decides"].startswith("1 mashup: ")
        assert f"{ROUGH}only 1 past request of yours." in router.route(request).verdict
        router.observe(sample.history[:20])
        assert router.n_mashups == 21
        repeated = sample.history[3]
        assert set(repeated.apis) & {a for a, _ in router.score(repeated.description).top(5)}

    def test_what_it_observed_is_saved(self, sample, tmp_path):
        router = fit_router(sample.catalog)
        router.observe(sample.history[:3])
        router.save(tmp_path / "model")
        loaded = verify_router(tmp_path / "model")
        request = sample.history[1].description
        assert loaded.route(request).to_dict() == router.route(request).to_dict()
        assert loaded.observe(sample.history[:4]) == 1

    def test_known_and_among(self, sample, unseen):
        request = "Text me when it rains tomorrow."
        best = [api for api, _ in unseen.score(request).top(6)]
        rest = unseen.route(request, best[:1])
        assert best[0] not in rest.contractors
        inside = unseen.route(request, among=best[2:5])
        assert set(inside.contractors) <= set(best[2:5])
        assert inside.recommendation and set(inside.recommendation) <= set(inside.contractors)
        assert inside.answerable <= unseen.route(request).answerable
        outside = unseen.route(request, exclude=best[:2])
        assert not {*best[:2]} & {*outside.contractors}
        with pytest.raises(InputError):
            unseen.route(request, among=[])

    def test_the_same_twice(self, sample, unseen, tmp_path):
        request = sample.history[7].description
        again = fit_router(sample.catalog, random_state=0)
        assert again.route(request).to_dict() == unseen.route(request).to_dict()

    def test_it_obeys_the_laws(self, catalog):
        router = fit_router(catalog)
        checks.check_router(router)
        checks.check_saved_answers_the_same(router, load_router, checks.REQUESTS)

    @pytest.mark.parametrize(
        "apis",
        [
            [Api("a", "A", "")],
            [Api("a", "A", ""), Api("b", "B", "")],
            [Api("a", "?", ""), Api("b", "!", "")],
            [Api("the", "The", "of and to"), Api("for", "For", "please help me")],
            [Api("天気", "天気", "雨と風の予報"), Api("地図", "地図", "場所を地図に表示する")],
        ],
        ids=["one", "two", "no words", "stop words only", "Japanese"],
    )
    def test_the_smallest_catalogs(self, apis, tmp_path):
        router = fit_router(Catalog(apis))
        router.save(tmp_path / "model")
        for text in ("a map", "?", "", "天気"):
            routing = load_router(tmp_path / "model").route(text or "?")
            assert routing.contractors
            assert 0 <= routing.confidence <= routing.answerable <= 1


class TestNewWords:
    """A router of a few tools, without history, reads the words of what it observes."""

    TOOLS = (
        Api("sms", "SMS", "Sends a text message to a phone number."),
        Api("weather", "Weather", "Forecast of rain, wind and temperature for a city."),
        Api("tickets", "Tickets", "Opens and closes support tickets."),
        Api("mail", "Mail", "Sends an e-mail with attachments."),
    )
    SEEN = (
        Mashup("1", "Ping Ola that I am late", ("sms",)),
        Mashup("2", "Do I need an umbrella today?", ("weather",)),
        Mashup("3", "kaputt: the screen is broken", ("tickets",)),
    )
    ASKED = (("ping Anna", "sms"), ("umbrella in Bergen?", "weather"), ("kaputt", "tickets"))

    @pytest.fixture
    def router(self):
        return fit_router(Catalog(self.TOOLS))

    def test_such_requests_are_understood(self, router):
        before = [router.route(request) for request, _ in self.ASKED]
        assert not any(routing.has_known_words for routing in before)
        router.observe(self.SEEN)
        for request, api in self.ASKED:
            routing = router.route(request)
            assert routing.has_known_words and routing.recommendation == (api,)
            assert routing.answerable > 0.1
        other = router.route("zeppelin")
        assert not other.has_known_words and other.answerable < 0.1

    def test_one_by_one_too(self, router):
        for mashup in self.SEEN:
            router.observe(mashup)
        assert [router.recommend(request) for request, _ in self.ASKED] == [
            (api,) for _, api in self.ASKED
        ]

    def test_saved_and_loaded_it_answers_alike(self, router, tmp_path):
        router.observe(self.SEEN)
        router.save(tmp_path / "model")
        loaded = load_router(tmp_path / "model")
        more = Mashup("4", "parapluie", ("weather",))
        for _ in range(2):
            for request in (*(request for request, _ in self.ASKED), "parapluie à Bergen"):
                assert loaded.route(request).to_dict() == router.route(request).to_dict()
            loaded.observe(more)
            router.observe(more)
        assert loaded.recommend("parapluie") == ("weather",)

    def test_with_other_tools_it_still_knows_them(self, router):
        router.observe(self.SEEN)
        now = router.synced(Catalog([*self.TOOLS[:3], Api("maps", "Maps", "Shows places.")]))
        for request, api in self.ASKED:
            assert now.recommend(request) == (api,)
        now.observe(Mashup("5", "whereabouts of Ola", ("maps",)))
        assert now.recommend("whereabouts") == ("maps",)


class TestOneAndTwo:
    @pytest.mark.parametrize("n", [1, 2])
    def test_they_are_fitted_saved_and_loaded(self, sample, tmp_path, n):
        router = fit_router(sample.catalog, sample.history[:n])
        router.save(tmp_path / "model")
        loaded = verify_router(tmp_path / "model")
        assert loaded.n_mashups == router.n_mashups == n
        for mashup in sample.history[:4]:
            request = mashup.description
            assert loaded.route(request).to_dict() == router.route(request).to_dict()
        few = "request" if n == 1 else "requests"
        assert router.route("a map").verdict.endswith(f"{ROUGH}only {n} past {few} of yours.")

    @pytest.mark.parametrize("n", [1, 2])
    def test_they_observe_and_extend(self, catalog, history, n):
        router = fit_router(catalog, history[:n])
        assert router.observe(history) == 4 - n
        wider = router.extended([Api("bread", "Bread", "Bakes bread and rolls.")])
        assert "bread" in wider.route("bake rolls and bread", select=TopK(2)).contractors

    def test_another_mashup_of_one_is_not_needed_for_the_laws(self, catalog, history):
        checks.check_router(fit_router(catalog, history[:1]))


def shortened(text, rng, share=0.2):
    said = text.split()
    return " ".join(word for word in said if rng.random() >= share) or text


class TestRepeats:
    """A near repeat of a past request finds what served it, however little history there is."""

    @pytest.mark.parametrize("n", [1, 2, 5, 15, 40, 110])
    def test_of_a_planted_history(self, n):
        """Specifications say nothing of the requests: the past alone does."""
        rng = np.random.default_rng(n)
        world = planted(n_cliques=8, size=4, rounds=4)
        mute = Catalog(Api(api.id, api.name, "", api.categories) for api in world.catalog)
        past = [Mashup(m.id, m.description, m.apis[:1]) for m in world.history[:n]]
        router = fit_router(mute, History(past))
        found = [
            m.apis[0] in [a for a, _ in router.score(shortened(m.description, rng)).top(5)]
            for m in past[:30]
        ]
        assert np.mean(found) >= 0.95

    @pytest.mark.parametrize("n", [1, 5, 15, 60])
    def test_of_the_sample(self, sample, n):
        rng = np.random.default_rng(n)
        past = sample.history[:n]
        router = fit_router(sample.catalog, past)
        top, needed = 0, 0
        for mashup in past[:40]:
            best = {a for a, _ in router.score(shortened(mashup.description, rng)).top(5)}
            top += len(best & set(mashup.apis))
            needed += min(len(mashup.apis), 5)
        assert top / needed >= 0.95

    def test_a_word_that_only_the_past_knows(self, sample):
        """What the specifications would never have guessed."""
        history = [
            *sample.history[:15],
            Mashup("odd", "Whelks and gribbles on a Tuesday.", ("virustotal",)),
        ]
        router = fit_router(sample.catalog, History(history))
        best = [a for a, _ in router.score("whelks and gribbles on a Tuesday").top(5)]
        assert "virustotal" in best


def told_apart(apis, requests):
    """Return how many requests have what they need first, without history."""
    router = fit_router(Catalog(apis))
    return sum(router.score(text).top(1)[0][0] == api for text, api in requests.items())


FILLER = [
    Api(f"filler{i}", f"Filler {i}", f"A service of the {word} kind.")
    for i, word in enumerate(
        ["amber", "birch", "cedar", "daisy", "elder", "fern", "grass", "heath", "iris", "jade"]
    )
]


class TestWhatCountsAsText:
    """Catalogs whose APIs are told apart by one thing only."""

    def test_names_of_parameters(self):
        kinds = ("latitude", "recipient", "barcode", "currency")
        apis = [
            Api(f"tool{i}", f"Tool {i}", "Does its work.", parameters={f"{kind}Value": "string"})
            for i, kind in enumerate(kinds)
        ]
        requests = {f"Something with a {kind}.": f"tool{i}" for i, kind in enumerate(kinds)}
        assert told_apart([*apis, *FILLER], requests) == len(kinds)
        bare = [Api(api.id, api.name, api.description) for api in apis]
        assert told_apart([*bare, *FILLER], requests) <= 1

    def test_descriptions_of_parameters(self):
        kinds = ("volcanoes", "sonnets", "ferries", "tulips")
        apis = [
            Api(
                f"tool{i}",
                f"Tool {i}",
                "Does its work.",
                parameters={
                    "type": "object",
                    "properties": {"x": {"type": "string", "description": f"List of {kind}."}},
                },
            )
            for i, kind in enumerate(kinds)
        ]
        requests = {f"What about the {kind}?": f"tool{i}" for i, kind in enumerate(kinds)}
        assert told_apart([*apis, *FILLER], requests) == len(kinds)

    def test_the_parts_of_identifiers(self):
        kinds = ("Volcano", "Sonnet", "Ferry", "Tulip")
        apis = [Api(f"t{i}", f"get{kind}List_v2", "Works.") for i, kind in enumerate(kinds)]
        requests = {f"Is there a {kind.lower()} here?": f"t{i}" for i, kind in enumerate(kinds)}
        assert told_apart([*apis, *FILLER], requests) == len(kinds)

    def test_the_name_of_the_server(self):
        kinds = ("volcano", "sonnet", "ferry", "tulip")
        apis = [Api(f"{kind}__search", "search", "Searches.") for kind in kinds]
        requests = {f"Something on a {kind}.": f"{kind}__search" for kind in kinds}
        assert told_apart([*apis, *FILLER], requests) == len(kinds)

    def test_words_of_asking_do_not(self):
        """They would be the rarest words of a small catalog."""
        apis = [
            Api("volcano", "Volcano", "Reports eruptions."),
            Api("helper", "Assistant", "Could you please show what I would really like to know?"),
        ]
        requests = {"Could you please really show me eruptions that I would like?": "volcano"}
        assert told_apart([*apis, *FILLER], requests) == 1


def corpus_of(counts, n_mashups, sample_router):
    """Return a corpus that used APIs so often."""
    from dataclasses import replace

    from scipy import sparse

    corpus = sample_router.views.corpus
    usage = np.zeros((n_mashups, corpus.n_apis), dtype=np.float32)
    row = 0
    for api, count in enumerate(counts):
        usage[np.arange(row, row + count) % max(n_mashups, 1), api] = 1
        row += count
    return replace(corpus, usage=sparse.csr_array(usage))


@pytest.mark.parametrize(
    ("counts", "n_mashups", "said"),
    [
        ([], 0, "no history: specifications decide, as their worth was learned elsewhere"),
        ([1], 1, "1 mashup: specifications decide, history breaks ties"),
        ([2, 1], 2, "2 mashups: specifications decide, history breaks ties"),
        (
            [LITTLE - 1],
            LITTLE - 1,
            f"{LITTLE - 1} mashups: specifications decide, history breaks ties",
        ),
        (
            [LITTLE],
            LITTLE,
            f"{LITTLE} mashups: specifications and history decide together; 100% of what they "
            "used was used more than once",
        ),
        ([1] * 40, 40, "40 mashups: specifications decide, history breaks ties"),
        (
            [100] + [1] * 100,
            MANY,
            f"{MANY} mashups: specifications and history decide together; 50% of what they used "
            "was used more than once",
        ),
        (
            [MANY],
            MANY,
            f"{MANY} mashups: history decides, and specifications what is new; 100% of what they "
            "used was used more than once",
        ),
        (
            [1_200],
            1_200,
            "1,200 mashups: history decides, and specifications what is new; 100% of what they "
            "used was used more than once",
        ),
    ],
)
def test_what_the_history_is_good_for(counts, n_mashups, said, sample_router):
    assert corpus_of(counts, n_mashups, sample_router).decides == said


def test_the_words_that_speak_for_it_are_named_in_a_small_catalog_too():
    catalog = Catalog(
        [
            Api("post", "Post", "Sends a message to a channel."),
            Api("rows", "Rows", "Counts what is stored."),
            Api("day", "Day", "Finds a free hour."),
        ]
    )
    best = fit_router(catalog).route("send a message to the team").recipients[0]
    assert best.contractor == "post"
    assert best.reasons[0].text == "its specification says “send” and “message”, too"


def test_of_a_script_without_spaces_the_words_are_named_too():
    catalog = Catalog(
        [
            Api("book", "一覧", "患者の予約を登録し、変更する。"),
            Api("drug", "薬", "薬の履歴を調べる。"),
        ]
    )
    best = fit_router(catalog).route("予約を登録したい").recipients[0]
    assert best.contractor == "book"
    assert best.reasons[0].text == "its specification says “予約” and “登録”, too"


class TestARequestInAnotherLanguage:
    SAID = (
        "The router knows no word of the request: ask in the words and the language of the catalog"
    )

    @pytest.mark.parametrize("request_", ["この荷物はどこですか", "zzz qqq"])
    def test_where_no_word_is_known_it_says_so(self, request_):
        router = fit_router(Catalog([Api("maps", "Maps", "Shows places on a map.")]))
        routing = router.route(request_)
        assert not routing.has_known_words
        assert f" {self.SAID}" in routing.verdict

    @pytest.mark.parametrize("request_", ["a map of zzz", "what is up", "Zzz maps"])
    def test_otherwise_it_does_not(self, request_):
        router = fit_router(Catalog([Api("maps", "Maps", "Shows places on a map.")]))
        routing = router.route(request_)
        assert routing.has_known_words
        assert self.SAID not in routing.verdict

"""Requests that nothing in the catalog serves."""

import numpy as np
import pytest

from cnp_router import Api, Catalog, History, Mashup, fit_router, load_sample
from cnp_router.datasets import load_out_of_scope
from cnp_router.training.answerable import Answerable, said
from cnp_router.training.looks import looks
from cnp_router.training.views import HistoryView
from cnp_router.training.views.columns import Pairs

NOTHING = [
    "zzz qqq",
    "hello there",
    "asdf jkl qwerty uiop zxcv",
    "what is 17 times 23?",
    "thank you, that was very kind of you",
    "knit me a sweater",
    "fix my broken chair",
    "the cat sat on the mat",
    "peel the potatoes",
    "明日は何を着ようかな",
]


@pytest.fixture(scope="module")
def sample():
    return load_sample()


@pytest.fixture(scope="module")
def split(sample):
    """The router of most of the sample, and the rest of its mashups."""
    order = np.random.default_rng(1).permutation(len(sample.history))
    known = History(sample.history[int(i)] for i in order[150:])
    return fit_router(sample.catalog, known), [sample.history[int(i)] for i in order[:150]]


def share_confident(router, texts, **options):
    return np.mean([router.route(text, **options).is_confident for text in texts])


class TestOnTheSample:
    def test_nonsense_is_not_confident(self, split):
        router, _ = split
        assert share_confident(router, NOTHING) <= 0.1
        assert not router.route("zzz qqq").fits

    def test_requests_are(self, split):
        router, held_out = split
        texts = [mashup.description for mashup in held_out]
        assert share_confident(router, texts) >= 0.75
        assert share_confident(router, [" ".join(t.split()[:7]) for t in texts]) >= 0.65
        assert np.mean([router.route(text).fits for text in texts]) >= 0.9

    def test_a_needed_api_outside_is_not_served(self, sample, split):
        router, held_out = split
        whole, outside = [], []
        for mashup in held_out:
            main = {sample.catalog[api].categories[0] for api in mashup.apis}
            left = [api.id for api in sample.catalog if api.categories[0] not in main]
            whole.append(router.route(mashup.description).confidence)
            outside.append(router.route(mashup.description, among=left).confidence)
        # How often the confidence tells the two apart.
        assert np.mean(np.array(whole)[:, None] > np.array(outside)) >= 0.85

    def test_the_confidence_is_calibrated(self, split):
        router, held_out = split
        routings = [router.route(mashup.description) for mashup in held_out]
        covered = [{*m.apis} <= {*r.contractors} for m, r in zip(held_out, routings, strict=True)]
        assert np.mean([r.confidence for r in routings]) == pytest.approx(
            np.mean(covered), abs=0.12
        )

    def test_it_survives_new_apis_and_new_mashups(self, split):
        router, held_out = split
        wider = router.extended([Api("knitting", "Knitting", "Knits sweaters, hats and socks.")])
        wider.observe(held_out[:3])
        assert not wider.route("zzz qqq").fits
        assert wider.route(held_out[0].description).fits


class TestRestrictions:
    def test_less_is_never_more_answerable(self, split):
        router, held_out = split
        for mashup in held_out[:10]:
            found = router.route(mashup.description)
            order = router.score(mashup.description).top(40)
            answerable = [
                router.route(mashup.description, among=[a for a, _ in order[:k]]).answerable
                for k in (1, 5, 40)
            ]
            assert answerable == sorted(answerable)
            assert answerable[-1] <= found.answerable + 1e-12

    def test_it_is_never_surer_than_that_anything_fits(self, split):
        router, held_out = split
        for text in [*NOTHING, *(mashup.description for mashup in held_out[:20])]:
            routing = router.route(text, among=router.apis[:30])
            assert 0 <= routing.confidence <= routing.answerable <= 1


@pytest.fixture(scope="module")
def without(router, world):
    """Views, a batch that is looked at without some APIs, and these."""
    requests = router.encoders.encode([case.request for case in world.cases[:6]])
    gone = [np.array([i, i + 5, i + 9]) for i in range(6)]
    return router.views, router.views.batch(requests, gone), gone


class TestAbsence:
    """A batch that is looked at without some APIs."""

    def test_what_is_absent_is_no_candidate(self, without):
        views, batch, gone = without
        for found, absent in zip(views.candidates(batch), gone, strict=True):
            assert not np.isin(found.positions, absent).any()

    def test_nor_are_its_scores_the_best(self, without):
        views, batch, gone = without
        for view in views:
            for column in view.scored(batch).values():
                assert not column.at(Pairs.across(gone)).any()

    def test_the_history_never_used_it(self, without):
        views, batch, gone = without
        for near, absent in zip(views[HistoryView].neighbours(batch), gone, strict=True):
            assert not np.isin(views.corpus.usage[near.rows].indices, absent).any()

    def test_others_are_as_they_were_in_their_own_words(self, router, world, without):
        views, batch, gone = without
        whole = views.batch(batch.requests)
        (words,) = (v for v in views if v.name == "specification")
        here, there = words.scored(batch)["words"], words.scored(whole)["words"]
        left = [np.setdiff1d(np.arange(len(world.catalog)), absent) for absent in gone]
        assert (here.at(Pairs.across(left)) == there.at(Pairs.across(left))).all()


def test_looks_are_of_every_kind_and_only_the_shortened_are_served(router, world):
    requests = router.encoders.encode([case.request for case in world.cases[:4]])
    used = [np.array([0]), np.array([1, 2]), np.array([3]), np.array([4])]
    found = list(looks(router.views, requests, used, ["la la", "lo lo lo"], seed=0))
    kinds = {look.kind for look in found}
    assert kinds == {"without", "without category", "shortened", "written", "joined"}
    assert {look.kind for look in found if len(look.used)} == {"shortened"}


@pytest.mark.parametrize("n", [2, 3, 15])
def test_little_history(sample, n):
    router = fit_router(sample.catalog, History(list(sample.history)[:n]))
    for text in ("zzz qqq", sample.history[0].description, "地図"):
        routing = router.route(text)
        assert 0 <= routing.confidence <= routing.answerable <= 1


def test_no_categories_and_no_texts_of_nothing():
    catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    history = History(
        [
            Mashup(f"m{i}", text, (api,))
            for i, (text, api) in enumerate(
                [
                    ("bars on a map", "maps"),
                    ("text me the news", "sms"),
                    ("text me a joke", "sms"),
                    ("map of parks", "maps"),
                ]
            )
        ]
    )
    router = fit_router(catalog, history)
    assert router.route("parks on a map").recipients[0].contractor == "maps"
    assert router.route("zzz qqq").answerable <= router.route("a map of parks").answerable


def test_it_is_plain_data(split):
    router, held_out = split
    again = Answerable.from_state(router.answerable.state())
    text = held_out[0].description
    (found,) = router.views.candidates(router.views.batch(router.encoders.encode([text])))
    p = np.linspace(0, 0.5, len(found.positions))
    told = said(router.encoders.word, [text])
    evidence = [a.evidences(told, [text], [found], [p]) for a in (again, router.answerable)]
    assert (evidence[0] == evidence[1]).all()


def test_the_same_seed_says_the_same(sample):
    history = History(list(sample.history)[:60])
    texts = [*NOTHING, sample.history[70].description]
    said = [
        [router.route(text).confidence for text in texts]
        for router in (fit_router(sample.catalog, history) for _ in range(2))
    ]
    assert said[0] == said[1]


def test_the_bundled_texts_are_not_those_it_is_judged_by():
    assert not {*NOTHING} & {*load_out_of_scope()}


TOOLS = {
    "calendar": "Create, move and list calendar events and meetings",
    "mail": "Send and search e-mail messages",
    "weather": "Current weather and forecasts for a place",
    "translate": "Translate text between languages",
    "music": "Play songs and playlists",
    "hotels": "Find and reserve hotel rooms",
    "maps": "Directions and distances between places",
    "news": "Latest headlines and articles by topic",
    "recipes": "Recipes for dishes by ingredient",
    "todo": "Keep lists of tasks and reminders",
    "photos": "Search, crop and share pictures",
    "taxi": "Order a taxi to an address",
    "bank": "Balance and transfers of a bank account",
    "git": "Commits, branches and pull requests of repositories",
    "files": "Read and write documents in a shared folder",
}
TRIED = {
    "calendar": ("set up a meeting with {} {}", "what do {} and I have to do {}", "cancel {} {}"),
    "mail": ("write to {} about {}", "any messages from {} since {}?", "reply to {}: fine, {}"),
    "weather": ("will it rain at {}'s {}", "ask {} how hot it gets {}", "does {} need a coat {}"),
}
WHO = ("Bob", "Ann", "Carol", "the landlord", "the dentist", "Maya", "Tom and Lea", "the plumber")
WHEN = ("Monday", "tomorrow", "next week", "Friday at 3", "the 12th", "this evening", "at noon")


OTHER_WORDS = {  # than those of the specifications
    "calendar": ("am I busy with {} {}",),
    "mail": ("drop {} a line {}",),
    "weather": ("umbrella for {} {}?",),
    "translate": ("how does {} say thanks in Spanish {}",),
    "music": ("sing me {} {}",),
    "hotels": ("a bed for {} {}",),
    "maps": ("which road leads to {} {}",),
    "news": ("what became of {} {}",),
    "recipes": ("what can {} cook {}",),
    "todo": ("do not let {} forget {}",),
    "photos": ("who stands beside {} {}",),
    "taxi": ("a ride for {} {}",),
    "bank": ("what does {} owe me {}",),
    "git": ("what did {} change {}",),
    "files": ("the paper from {} {}",),
}


def fitted(patterns, n):
    """Return a router of all tools, after some requests that are made of patterns."""
    catalog = Catalog([Api(name, name, text) for name, text in TOOLS.items()])
    said = [
        (text.format(who, when), name)
        for who in WHO
        for when in WHEN
        for name, texts in patterns.items()
        for text in texts
    ]
    order = np.random.default_rng(0).permutation(len(said))[:n]
    past = [Mashup(str(i), said[i][0], (said[i][1],)) for i in order.tolist()]
    return fit_router(catalog, History(past))


@pytest.mark.parametrize(
    ("patterns", "n"),
    [
        # A trial of three tools is no sign that requests for the others are nonsense,
        (TRIED, 40),
        (TRIED, 200),
        (TRIED, 450),
        # nor are a few patterns for all of them a sign that other words are.
        (OTHER_WORDS, 120),
        (OTHER_WORDS, 450),
        (OTHER_WORDS, 800),
    ],
)
def test_what_is_unlike_the_past_still_fits(patterns, n):
    router = fitted(patterns, n)
    for request, tool in {
        "translate this letter into French": "translate",
        "play some songs for the dinner": "music",
        "put milk on my list of tasks": "todo",
        "order a taxi to the station": "taxi",
        "open a pull request for the fix": "git",
        "find hotel rooms in Rome": "hotels",
        **{texts[0].format("Eve", "on Sunday"): name for name, texts in patterns.items()},
    }.items():
        routing = router.route(request)
        assert routing.fits, request
        assert routing.recommendation == (tool,)
    for text in NOTHING:
        assert not router.route(text).fits, text

from __future__ import annotations

import logging
import pickle
import threading

import numpy as np
import pytest
from fixed import NAMES, Fixed, Model

from cnp_router.exceptions import InputError
from cnp_router.routing import BroadcastRouter, MaxCost, Router, TargetRecall, TopK, restriction
from cnp_router.routing.result import FEW_MASHUPS, Recipient, Routing


class TestRestriction:
    @pytest.mark.parametrize(
        "restriction",
        [
            {"among": ["c", "a"]},
            {"among": {"a", "c"}},
            {"among": iter(["a", "c"])},
            {"among": np.array(["a", "c"])},
            {"among": lambda name: name in "ac"},
            {"among": lambda name: np.bool_(name != "b"), "exclude": ["d"]},
            {"exclude": ("b", "d")},
            {"exclude": lambda name: name in "bd"},
            {"among": ["a", "b", "c"], "exclude": ["b"]},
        ],
    )
    def test_no_one_else_is_asked(self, router, restriction):
        routing = router.route("x", select=TopK(4), **restriction)
        assert routing.contractors == ("c", "a")
        assert (routing.n_allowed, routing.n_apis, routing.is_restricted) == (2, 4, True)

    def test_the_best_is_recommended_inside(self, router):
        assert router.recommend("x") == ("b",)
        assert router.route("x", exclude=["b"]).recommendation == ("c",)
        assert router.recommend("x", exclude=["b"]) == ()  # its probability is too low to fit
        assert router.route("x", ["c"], among=["a", "c"]).recommendation == ("a",)

    def test_probabilities_are_those_of_all(self, router):
        routing = router.route("x", among=["a", "d"], select=TopK(2))
        assert [r.probability for r in routing.recipients] == [0.1, 0.0]

    def test_a_need_outside_is_not_served(self, router):
        routing = router.route("x", among=["a", "c"], select=TopK(2))
        assert routing.confidence == pytest.approx(0.2)
        assert routing.answerable == pytest.approx(1 - 0.9 * 0.7)
        assert router.route("x").answerable == pytest.approx(1 - 0.9 * 0.7 * 0.2)

    def test_a_target_recall_is_of_what_may_be_asked(self, router):
        routing = router.route("x", exclude=["b"], select=TargetRecall(0.7))
        assert routing.contractors == ("c",)

    def test_a_fallback_stays_inside(self, router):
        how = {"select": TopK(1), "threshold": 1, "among": ["a", "c"]}
        assert router.route("x", fallback=Model("b", "a"), **how).contractors == ("c", "a")
        everyone = router.route("x", fallback="broadcast", **how)
        assert (everyone.contractors, everyone.source) == (("c", "a"), "broadcast")

    def test_the_known_may_be_inside(self, router):
        routing = router.route("x", ["c"], among=["a", "c"], select=TopK(3))
        assert (routing.contractors, routing.n_allowed) == (("a",), 1)

    def test_knowing_apis_is_no_restriction(self, router):
        routing = router.route("x", ["c"])
        assert (routing.n_allowed, routing.is_restricted, routing.n_reachable) == (3, False, 4)

    def test_allowing_everyone_is_none(self, router):
        assert router.route("x", among=NAMES) == router.route("x")
        assert router.route("x", exclude=lambda name: False) == router.route("x")

    def test_strangers_are_ignored_and_in_the_log(self, router, caplog):
        with caplog.at_level(logging.WARNING, "cnp_router.routing"):
            routing = router.route("x", ["y"], among=["y", "a", "z"], exclude=["é", "z"])
        assert routing.ignored == ("y", "z", "é")
        assert caplog.messages == [
            "known APIs that the router has never heard of: 'y'",
            "APIs in among that the router has never heard of: 'y', 'z'",
            "APIs in exclude that the router has never heard of: '\\xe9', 'z'",
        ]

    def test_many_strangers_are_one_short_line(self, router, caplog):
        router.route("x", among=["a", *map(str, range(10_000))])
        assert len(caplog.messages[0]) < 200
        assert caplog.messages[0].endswith("'9' and 9990 more")

    def test_ids_match_in_either_normal_form(self):
        class Coffee(Fixed):
            def __init__(self):
                super().__init__(0.5, 0.5)
                Router.__init__(self, ["caf\u00e9", "b"])

        assert Coffee().route("x", among=["cafe\u0301"]).contractors == ("caf\u00e9",)
        assert Coffee().route("x", exclude=["cafe\u0301"]).contractors == ("b",)

    def test_so_do_those_that_a_router_is_made_of_and_a_fallback_returns(self):
        class Coffee(Fixed):
            def __init__(self):
                super().__init__(0.3, 0.5)
                Router.__init__(self, ["cafe\u0301", "b"])

        class Asked:
            source = "llm"

            def recipients(self, request, scores, chosen):
                return ["cafe\u0301"]

        assert Coffee().apis == ("caf\u00e9", "b")
        assert Coffee().route("x", exclude=["cafe\u0301"]).contractors == ("b",)
        wider = Coffee().route("x", select=TopK(1), threshold=1.0, fallback=Asked())
        assert wider.contractors == ("b", "caf\u00e9")

    def test_messages_are_saved_of_a_broadcast_to_those_that_may_be_asked(self, router):
        routing = router.route("x", among=NAMES[:3], select=TopK(1))
        assert routing.to_dict()["messages_saved"] == 2

    @pytest.mark.parametrize("name", ["among", "exclude"])
    def test_what_a_function_raises_goes_through(self, router, name):
        def rights(api):
            raise PermissionError(api)

        with pytest.raises(PermissionError, match="a"):
            router.route("x", **{name: rights})
        assert not router.source_counts

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
    def test_a_coroutine_lets_no_one_in(self, router):
        async def rights(api):
            return False

        with pytest.raises(
            ValueError, match=r"must answer True or False, got <coroutine .* for 'a"
        ):
            router.route("x", among=rights)

    def test_a_function_is_asked_once_for_each_api(self, router):
        asked = []
        router.route("x", among=lambda name: asked.append(name) is None)
        assert asked == list(NAMES)

    def test_concurrent_requests_share_nothing(self):
        names = [f"api {i}" for i in range(50)]

        class Wide(Fixed):
            def __init__(self):
                Router.__init__(self, names)
                self.probabilities = np.random.default_rng(0).random(50)

        router, wrong = Wide(), []
        together = threading.Barrier(4)

        def tenant(own):
            together.wait()
            for _ in range(200):
                routing = router.route("x", among=own, threshold=1, fallback="broadcast")
                wrong.extend(set(routing.contractors) ^ own)

        threads = [threading.Thread(target=tenant, args=({*names[i::4]},)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_a_broadcast_reaches_who_is_allowed(self, catalog):
        routing = BroadcastRouter(catalog).route("x", among=catalog.ids[:2])
        assert (len(routing.recipients), routing.n_reachable) == (2, 2)
        assert routing.answerable == pytest.approx(2 / len(catalog))


class TestLong:
    """Restrictions by many ids, of which the last ones are remembered."""

    @pytest.fixture
    def read(self, monkeypatch):
        """What was read of restrictions; two ids are many."""
        read, original = [], restriction.limits

        def limits(places, known, among, exclude):
            read.append((tuple(known), among, exclude))
            return original(places, known, among, exclude)

        monkeypatch.setattr(restriction, "limits", limits)
        monkeypatch.setattr(restriction, "_FEW", 1)
        return read

    @pytest.mark.parametrize("kind", [tuple, frozenset])
    def test_the_same_object_is_read_once(self, router, read, kind, caplog):
        among = kind(["a", "b", "c", "gone"])
        first = router.route("x", among=among)
        assert router.route("y", among=among).recipients == first.recipients
        assert len(read) == 1
        # What the log says of strangers, it says each time.
        assert len(caplog.messages) == 2
        assert router.route("x", among=kind(["b", "c", "d"])).n_allowed == 3
        assert router.route("x", among=among) == first
        assert router.route("x", ["a"], among=among).n_allowed == 2
        assert router.route("x", exclude=among).n_allowed == 1
        assert router.route("x", exclude=among, among=kind("abcd")).n_allowed == 1
        assert len(read) == 5

    def test_what_is_used_stays(self, router, read, monkeypatch):
        monkeypatch.setattr(restriction, "_KEPT", 2)
        used, *others = [tuple(f"abc{n}") for n in range(4)]
        for other in others:
            for among in (used, other):
                assert router.route("x", among=among).n_allowed == 3
            # With other known APIs each time, nothing is kept.
            assert router.route("x", ["b"], among=used).n_allowed == 2
        assert [among for _, among, _ in read].count(used) == 1 + len(others)

    def test_a_tuple_that_is_a_function_is_asked_each_time(self, router, read):
        class Permission(tuple):
            def __call__(self, api):
                return api in allowed

        allowed, among = {"a", "b"}, Permission("ab")
        assert router.route("x", among=among).n_allowed == 2
        allowed.clear()
        with pytest.raises(InputError, match="among leaves none"):
            router.route("x", among=among)

    def test_what_may_have_changed_is_read_again(self, router, read):
        among = ["a", "b", "c"]
        assert router.route("x", among=among).n_allowed == 3
        among.pop()
        assert router.route("x", among=among).n_allowed == 2
        allowed, exclude = {"a"}, ("b", "c", "d")
        assert router.route("x", among=allowed.__contains__, exclude=exclude).n_allowed == 1
        allowed.clear()
        with pytest.raises(InputError, match="leaves none of 4 APIs"):
            router.route("x", among=allowed.__contains__, exclude=exclude)

    def test_each_router_has_its_own(self, router, read):
        among, other = ("a", "d"), Fixed(0.5, 0.4)
        assert router.route("x", among=among).n_allowed == 2
        assert other.route("x", among=among).n_allowed == 1
        again = pickle.loads(pickle.dumps(router))
        assert again.route("x", among=among) == router.route("x", among=among)


class TestRecommendation:
    def test_it_is_among_the_recipients(self):
        router = Fixed(0.9, 0.8, 0.7, 0.1)
        assert router.route("x", select=TopK(4)).recommendation == ("a", "b", "c")
        assert router.route("x", select=TopK(2)).recommendation == ("a", "b")

    def test_recipients_that_are_not_the_most_probable(self):
        router = Fixed(0.9, 0.8, 0.1, 0.05)
        routing = router.route("x", select=MaxCost(2, {"a": 5}))
        assert routing.contractors == ("b", "c")
        assert routing.recommendation == ("b",)

    def test_what_a_fallback_adds_can_be_recommended(self):
        router = Fixed(0.5, 0.5, 0.1, 0.1)
        alone = router.route("x", select=TopK(1))
        widened = router.route("x", select=TopK(1), threshold=1, fallback=Model("b"))
        assert (alone.recommendation, widened.recommendation) == (("a",), ("a", "b"))


class TestVerdict:
    @pytest.fixture
    def verdict(self):
        def verdict(**changed):
            given = {
                "request": "x",
                "recipients": (Recipient("a", 0.9),),
                "recommendation": ("a",),
                "confidence": 0.8,
                "source": "learned",
                "n_apis": 40,
                "threshold": 0.6,
                "fallback": "none",
            }
            return Routing(**(given | changed)).verdict

        return verdict

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({}, "Sure: the confidence of 0.80 reaches the threshold of 0.60."),
            (
                {"confidence": 0.5},
                "Not sure: the confidence of 0.50 is below the threshold of 0.60, so an API "
                "that is needed may be missing.",
            ),
            (
                {"confidence": 0.5, "source": "llm"},
                "Not sure: the confidence of 0.50 is below the threshold of 0.60, so a language "
                "model was asked who else may fit.",
            ),
            (
                {"confidence": 0.5, "source": "broadcast"},
                "Not sure: the confidence of 0.50 is below the threshold of 0.60, so everyone is "
                "asked.",
            ),
            (
                {"confidence": 0.5, "source": "broadcast", "n_allowed": 3},
                "Not sure: the confidence of 0.50 is below the threshold of 0.60, so everyone "
                "allowed is asked.",
            ),
            (
                {"confidence": 0.5996},
                "Not sure: the confidence of 0.5996 is below the threshold of 0.6000, so an "
                "API that is needed may be missing.",
            ),
            (
                {"confidence": 0.1, "answerable": 0.4996},
                "Nothing in the catalog fits: the probability that anything does is 0.4996.",
            ),
            (
                {"confidence": 0.1, "answerable": 0.49},
                "Nothing in the catalog fits: the probability that anything does is 0.49.",
            ),
            (
                {"answerable": 0.1, "n_allowed": 3, "source": "broadcast"},
                "Nothing that is allowed fits: the probability that anything does is 0.10.",
            ),
            (
                {"answerable": 0.1, "known": ("b",), "n_allowed": 39},
                "Nothing else in the catalog fits: the probability that anything does is 0.10.",
            ),
            (
                {"answerable": 0.1, "confidence": 0.1, "source": "broadcast"},
                "Nothing in the catalog fits: the probability that anything does is 0.10, so "
                "everyone is asked.",
            ),
            (
                {"n_mashups": 0},
                "Sure: the confidence of 0.80 reaches the threshold of 0.60. Its probabilities are "
                "rough: they were learned from no past requests of yours.",
            ),
            (
                {"n_mashups": 1, "answerable": 0},
                "Nothing in the catalog fits: the probability that anything does is 0.00. Its "
                "probabilities are rough: they were learned from only 1 past request of yours.",
            ),
            (
                {"n_mashups": FEW_MASHUPS},
                "Sure: the confidence of 0.80 reaches the threshold of 0.60.",
            ),
        ],
    )
    def test_what_it_says(self, verdict, changed, said):
        assert verdict(**changed) == said

    @pytest.mark.parametrize(
        ("n_mashups", "least"),
        [(None, 0.5), (0, 0.1), (1, 0.3067), (15, 0.4), (29, 0.4933), (30, 0.5), (10**6, 0.5)],
    )
    def test_what_it_takes_to_fit_grows_with_those_it_was_fitted_on(self, n_mashups, least):
        def fits(answerable, **learned):
            said = {"answerable": answerable, **learned}
            return Routing("x", (), (), 0.1, "learned", 3, 0.6, "none", **said).fits

        observed = 0 if n_mashups is None else n_mashups + 500
        for learned in (
            {"n_mashups": n_mashups},
            {"n_mashups": observed, "n_fitted": 30 if n_mashups is None else n_mashups},
        ):
            assert not fits(least - 0.001, **learned)
            assert fits(least + 0.001, **learned)

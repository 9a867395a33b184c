"""The laws that every `Router` must obey, to be run on your own router too.

`check_router` runs them all; `laws` names them one by one, for a parametrised test. Each law is a
public function of a router and some requests, and raises an AssertionError that says what was
broken, by which request.

Examples
--------
>>> from cnp_router.catalog import Api, Catalog
>>> from cnp_router.routing import SpecificationRouter
>>> catalog = Catalog([Api("maps", "Maps", "Shows places on a map."),
...                    Api("sms", "SMS", "Sends text messages."),
...                    Api("mail", "Mail", "Sends e-mail.")])
>>> check_router(SpecificationRouter(catalog))
>>> [name for name, check in laws(SpecificationRouter(catalog))][:2]
['inputs_untouched', 'scores_are_probabilities']
"""

from cnp_router.checks.conduct import (
    Loader,
    check_bad_arguments_raise,
    check_inputs_untouched,
    check_odd_requests_are_answered,
    check_same_request_same_answer,
    check_saved_answers_the_same,
    check_scores_are_probabilities,
    check_unfitted_raises,
)
from cnp_router.checks.decisions import (
    check_confidence_is_a_probability,
    check_deciding_on_scores_is_routing,
    check_fallback_is_never_silent,
    check_known_are_not_asked,
    check_never_more_than_asked,
    check_recipients_descend,
    check_threshold_zero_never_falls_back,
    check_unknown_known_are_reported,
)
from cnp_router.checks.run import LAWS, check_router, laws
from cnp_router.checks.support import ODD_REQUESTS, REQUESTS

__all__ = [
    "LAWS",
    "ODD_REQUESTS",
    "REQUESTS",
    "Loader",
    "check_bad_arguments_raise",
    "check_confidence_is_a_probability",
    "check_deciding_on_scores_is_routing",
    "check_fallback_is_never_silent",
    "check_inputs_untouched",
    "check_known_are_not_asked",
    "check_never_more_than_asked",
    "check_odd_requests_are_answered",
    "check_recipients_descend",
    "check_router",
    "check_same_request_same_answer",
    "check_saved_answers_the_same",
    "check_scores_are_probabilities",
    "check_threshold_zero_never_falls_back",
    "check_unfitted_raises",
    "check_unknown_known_are_reported",
    "laws",
]
